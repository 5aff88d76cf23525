//go:build !race

package hrana_test

const slowed = false
