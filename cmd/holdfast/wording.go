package main

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

// The API names its own fields in what it says of a request. A person at the
// command line wrote flags and arguments, and durations, not milliseconds.

// flagError is err in the words of the command line.
type flagError struct {
	text string
	err  error
}

func (e *flagError) Error() string { return e.text }
func (e *flagError) Unwrap() error { return e.err }

// inFlags puts err, what became of a call for the command of c, into the words
// of the command line.
func inFlags(c *cli.Context, err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, inFlags(c, e))
		}
		return errors.Join(all...)
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != client.CodeInvalid && e.Code != client.CodeTooLarge {
		return err
	}
	said, ok := reworded(c, e.Message)
	if !ok {
		return err
	}
	return &flagError{strings.Replace(err.Error(), e.Error(), said, 1), err}
}

var (
	aboutField = regexp.MustCompile(`^(?:\w+\[\d+\]\.)?([a-z_]+)(?:\[\d+\])?(:? .*)$`)
	fieldInMS  = regexp.MustCompile(`\b[a-z_]+_ms\b`)
	integer    = regexp.MustCompile(`-?\b\d+\b`)
)

// reworded is a message of the API in the words of the command line. It
// reports false when the message is not about one of the command's flags or
// arguments.
func reworded(c *cli.Context, message string) (string, bool) {
	m := aboutField.FindStringSubmatch(message)
	if m == nil {
		return "", false
	}
	name, ok := onLine(c, m[1])
	if !ok {
		return "", false
	}
	reason := strings.Replace(m[2], ", or 0 for the queue's setting", "", 1)
	reason = strings.Replace(reason, " in Unix milliseconds", "", 1)
	if strings.HasSuffix(m[1], "_ms") && !strings.HasSuffix(m[1], "_at_ms") {
		reason = integer.ReplaceAllStringFunc(reason, func(text string) string {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil || (time.Duration(ms)*time.Millisecond).Milliseconds() != ms {
				return text + " ms"
			}
			return span(time.Duration(ms) * time.Millisecond)
		})
	}
	reason = fieldInMS.ReplaceAllStringFunc(reason, func(field string) string {
		if other, ok := onLine(c, field); ok {
			return other
		}
		return field
	})
	return name + reason, true
}

// onLine is how the command line of c calls a field of the API.
func onLine(c *cli.Context, field string) (string, bool) {
	name := strings.ReplaceAll(strings.TrimSuffix(field, "_ms"), "_", "-")
	if field == "delay_ms" && c.Command.Name == "snooze" {
		name = "for"
	}
	switch field {
	case "idempotency_key":
		name = "key"
	case "expires_at_ms":
		name = "expires"
	case "queues", "tags":
		name = strings.TrimSuffix(name, "s")
	}
	arg := strings.ToUpper(name)
	switch {
	case c.IsSet(name):
		return "--" + name, true
	case slices.Contains(strings.FieldsFunc(c.Command.ArgsUsage, notUpper), arg):
		return arg, true
	case find(c.Command.Flags, name) != nil:
		return "--" + name, true
	}
	return "", false
}

func notUpper(r rune) bool { return r < 'A' || r > 'Z' }
