package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// flagValue checks the value of a flag by the flag's kind, and returns it as
// the cli package reads it: that package has no days, and names a flag as its
// author and not as its user does.
func flagValue(cmd *cli.Command, f cli.DocGenerationFlag, value string) (string, error) {
	name := f.(cli.Flag).Names()[0]
	if value == "" && !mayBeEmpty(cmd, name) {
		return "", usagef("--%s is empty; give it a value, or leave it out", name)
	}
	var err error
	switch f.(type) {
	case *cli.DurationFlag:
		var d time.Duration
		if d, err = parseSpan(value); err == nil {
			value = d.String()
		}
	case *cli.IntFlag, *cli.Int64Flag:
		err = checkNumber(value)
	case *cli.BoolFlag:
		if _, fault := strconv.ParseBool(value); fault != nil {
			err = fmt.Errorf("%q is neither true nor false", value)
		}
	}
	if err != nil {
		return "", usagef("--%s: %v", name, err)
	}
	return value, nil
}

// mayBeEmpty reports whether a flag means something when its value is empty: a
// program may have failed without a word.
func mayBeEmpty(cmd *cli.Command, name string) bool { return cmd.Name == "fail" && name == "error" }

func checkNumber(text string) error {
	if _, err := strconv.ParseInt(text, 0, 64); err == nil {
		return nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Errorf("%s is not a whole number within bounds", text)
	}
	return fmt.Errorf("%q is not a number", text)
}

// errNoSpan tells how to write a duration.
var errNoSpan = errors.New("write a duration such as 5s, 5m, 2h or 3d")

var daysFirst = regexp.MustCompile(`^(-?)([0-9.]+)d(.*)$`)

// parseSpan is time.ParseDuration with days, of 24 hours, in front. What is
// too short for the API, which counts milliseconds, would be 0 there.
func parseSpan(text string) (time.Duration, error) {
	var days float64
	rest := text
	if m := daysFirst.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", text, errNoSpan)
		}
		days, rest = n, m[1]+m[3]
		if m[1] != "" {
			days = -days
		}
		if strings.TrimPrefix(rest, "-") == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	total := days*float64(24*time.Hour) + float64(d)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q: %w", text, errNoSpan)
	case math.Abs(total) >= math.MaxInt64:
		return 0, fmt.Errorf("%s is longer than can be said", text)
	}
	d += time.Duration(days * float64(24*time.Hour))
	if d != 0 && d.Abs() < time.Millisecond {
		return 0, fmt.Errorf("%s is shorter than a millisecond", text)
	}
	return d, nil
}

// span writes a duration as parseSpan reads it, without the units that are 0.
func span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	text := d.Round(time.Millisecond).String()
	if days := d / (24 * time.Hour); days > 0 {
		text = strconv.FormatInt(int64(days), 10) + "d" + (d % (24 * time.Hour)).String()
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return sign + text
}

// parseTime reads a time of the command line: RFC 3339, or a date alone, which
// is its first moment here.
func parseTime(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return at, nil
	}
	later := now.Add(time.Hour)
	return time.Time{}, fmt.Errorf("%q is not a time such as %s, or a date such as %s", text, later.Format(time.RFC3339), later.Format(time.DateOnly))
}

// positive refuses 0 for a flag whose absence means a default: whoever writes
// 0 means something else.
func positive[T int | time.Duration](name string) func(*cli.Context, T) error {
	return func(_ *cli.Context, n T) error {
		if n <= 0 {
			return usagef("--%s: %v is not more than 0", name, n)
		}
		return nil
	}
}
