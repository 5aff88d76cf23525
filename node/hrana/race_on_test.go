//go:build race

package hrana_test

// slowed says that SQLite runs some thirty times slower than in the product,
// so that no limit of time or memory means what it does there.
const slowed = true
