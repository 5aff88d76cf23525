package replicate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a file of testdata/config. Its first comment lines say what is to
// be expected of it:
//
//	# stock: accepts       (or refuses) what the stock program does
//	# why: REASON          the reason why we differ from it
//	# env: NAME=VALUE      a variable that is set
//	# want: LINE: PROBLEM  a problem that we report; without any we accept it
//	# is: NAME=VALUE       a setting that we read
type sample struct {
	name  string // without .yml
	path  string
	stock bool // the stock program accepts it
	why   string
	want  []string
	is    []string
}

// samples calls do with each sample, its variables set and ENDPOINT too.
func samples(t *testing.T, endpoint string, do func(t *testing.T, s sample)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "config", "*.yml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d samples: %v", len(paths), err)
	}
	for _, path := range paths {
		s := sample{name: strings.TrimSuffix(filepath.Base(path), ".yml"), path: path}
		t.Run(s.name, func(t *testing.T) {
			t.Setenv("ENDPOINT", endpoint)
			s.read(t)
			do(t, s)
		})
	}
}

func (s *sample) read(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			break
		}
		switch key {
		case "# stock":
			s.stock = value == "accepts"
		case "# why":
			s.why = value
		case "# want":
			s.want = append(s.want, value)
		case "# is":
			s.is = append(s.is, os.ExpandEnv(value))
		case "# env":
			name, value, _ := strings.Cut(value, "=")
			t.Setenv(name, value)
		default:
			return
		}
	}
}
