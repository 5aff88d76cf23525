package client_test

import (
	"strings"
	"testing"

	"holdfast/node/client"
)

func TestValidTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"one of the standard is valid":        {good, true},
		"a later version may say more":        {"01" + good[2:] + "-extra", true},
		"the first version may not":           {good + "-extra", false},
		"version ff is none":                  {"ff" + good[2:], false},
		"an empty trace id is none":           {"00-" + strings.Repeat("0", 32) + good[35:], false},
		"an empty parent is none":             {good[:36] + strings.Repeat("0", 16) + good[52:], false},
		"upper case is not in the standard":   {strings.ToUpper(good), false},
		"a short one is cut":                  {good[:54], false},
		"what follows a dash is no dash":      {strings.Replace(good, "-", "_", 1), false},
		"what is endless is refused":          {"01" + good[2:] + "-" + strings.Repeat("x", 200), false},
		"a line break cannot be smuggled in":  {"01" + good[2:] + "-\n", false},
		"nothing is no traceparent":           {"", false},
		"what follows must be kept apart too": {"01" + good[2:] + "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := client.ValidTraceparent(tt.text); got != tt.want {
				t.Errorf("%q: got %t", tt.text, got)
			}
		})
	}
}
