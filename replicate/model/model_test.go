package main

import (
	"strings"
	"testing"
)

// TestModel: the protocol holds in small bounds, and without any one of its rules
// it does not: each run ends with the promise that breaks.
func TestModel(t *testing.T) {
	for _, tt := range []struct{ flags, want string }{
		{"-faults 1", "holds"},
		{"-faults 1 -same-name=false", "holds"},
		{"-faults 1 -adopt", "holds"},
		{"-faults 1 -offline", "holds"},
		{"-faults 1 -follow", "holds"},
		{"-faults 2 -jobs 1 -follow -same-name=false -clocks", "holds"},
		{"-faults 2 -fence-first=false", "VIOLATION P1"},
		{"-faults 2 -intent=false", "VIOLATION P3"},
		{"-faults 2 -same-needs-ready=false", "VIOLATION P4"},
		{"-faults 2 -get=false", "VIOLATION P1"},
		{"-faults 2 -late-takeover=false -only P5", "VIOLATION P5"},
		{"-faults 2 -match epoch", "VIOLATION P3"},
		{"-faults 2 -always-same -only P1", "VIOLATION P1"},
		{"-faults 2 -behind-check=false -old -clone=false -only P1", "VIOLATION P1"},
		{"-faults 2 -cas=false -only P1", "VIOLATION P1"},
		{"-faults 2 -vm -only P1", "VIOLATION P1"},
		{"-faults 1 -follow -catch-up=false", "VIOLATION P1"},
	} {
		t.Run(tt.flags, func(t *testing.T) {
			text, holds := run(strings.Fields(tt.flags))
			if !strings.HasPrefix(text, tt.want) || holds != (tt.want == "holds") {
				t.Errorf("want %s, got %s", tt.want, text)
			}
		})
	}
}
