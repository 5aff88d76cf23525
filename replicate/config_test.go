package replicate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/replicate"
)

func TestLoadConfig(t *testing.T) {
	samples(t, "http://127.0.0.1:9000", func(t *testing.T, s sample) {
		c, err := replicate.LoadConfig(s.path)
		if got := problems(t, s.path, err); !slices.Equal(got, sorted(s.want)) {
			t.Errorf("got problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(s.want, "\n"))
		}
		if err == nil {
			checkSettings(t, c, s.is)
		}
	})
}

// problems returns those of err, sorted, without the file's name.
func problems(t *testing.T, file string, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var wrong *replicate.ConfigError
	if !errors.As(err, &wrong) {
		t.Fatalf("got %T (%v), want a *ConfigError", err, err)
	}
	last := 0
	var out []string
	for _, p := range wrong.Problems {
		if p.File != file || p.Line < last {
			t.Errorf("got %s on line %d after line %d", p.File, p.Line, last)
		}
		last = p.Line
		out = append(out, strings.TrimLeft(strings.TrimPrefix(p.String(), file), ": "))
	}
	return sorted(out)
}

func sorted(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return lines
}

func checkSettings(t *testing.T, c replicate.Config, want []string) {
	t.Helper()
	got := map[string]string{}
	for _, s := range c.Settings() {
		got[s.Name] = s.Value
	}
	for _, w := range want {
		name, value, _ := strings.Cut(w, "=")
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s: got %q, want %q", name, v, value)
		}
	}
}

func TestSettingsNameTheLineOfEach(t *testing.T) {
	file := filepath.Join("testdata", "config", "global_settings.yml")
	t.Setenv("ENDPOINT", "http://127.0.0.1:9000")
	t.Setenv("HOLDFAST_TEST_ID", "AKIA123")
	t.Setenv("HOLDFAST_TEST_SECRET", "abc")
	c, err := replicate.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(readFile(t, file), "\n")
	for _, want := range []struct{ name, text string }{
		{"replica.bucket", "bucket: jobs"},
		{"replica.path", "path: node1"},
		{"replica.type", "type: s3"},
		{"replica.secret-access-key", "secret-access-key:"},
		{"snapshot.retention", "retention: 48h"},
		{"sync-interval", "sync-interval: 2s"},
		{"snapshot.interval", ""},
	} {
		origin := "default"
		for i, line := range lines {
			if want.text != "" && strings.HasPrefix(strings.TrimSpace(line), want.text) {
				origin = fmt.Sprintf("%s:%d", file, i+1)
			}
		}
		i := slices.IndexFunc(c.Settings(), func(s replicate.Setting) bool { return s.Name == want.name })
		if got := c.Settings()[i].Origin; got != origin {
			t.Errorf("%s: got origin %q, want %q", want.name, got, origin)
		}
	}
}

func TestLoadConfigOfNoFileNamesIt(t *testing.T) {
	_, err := replicate.LoadConfig("no/such.yml")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no/such.yml") {
		t.Errorf("got %v, want that no/such.yml does not exist", err)
	}
}

func TestLoadConfigRefusesHugeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.yml")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := replicate.LoadConfig(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v, want that it is too large", err)
	}
}

func TestDefaultConfigIsValid(t *testing.T) {
	dir := t.TempDir()
	c := replicate.DefaultConfig(dir)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if want := filepath.Join(dir, "replica"); c.Replica.Path != want || c.Replica.Type != replicate.TypeFile {
		t.Errorf("got %s %s, want the folder %s", c.Replica.Type, c.Replica.Path, want)
	}
}

func TestValidateReportsEverything(t *testing.T) {
	c := replicate.DefaultConfig(t.TempDir())
	c.SyncInterval, c.Levels, c.Failover = 0, make([]time.Duration, 9), "sometimes"
	c.Replica = replicate.Replica{
		Type: "s3", Path: "a//..", Bucket: "a/b", Endpoint: "https://KEY:SECRET@host", SecretAccessKey: "SECRET",
		PartSize: 1, Concurrency: -1,
	}
	err := c.Validate()
	var wrong *replicate.ConfigError
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want a *ConfigError", err)
	}
	if strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got a secret in %v", err)
	}
	for _, key := range []string{
		"sync-interval", "levels", "levels[8].interval", "holdfast.failover", "replica.path", "replica.bucket",
		"replica.endpoint", "replica.secret-access-key", "replica.part-size", "replica.concurrency",
	} {
		if !slices.ContainsFunc(wrong.Problems, func(p replicate.ConfigProblem) bool { return p.Key == key }) {
			t.Errorf("got %v, want %s among it", err, key)
		}
	}
	if err := (replicate.Config{}).Validate(); err == nil {
		t.Error("got no error for an empty Config")
	}
}

func TestForDatabase(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "holdfast.db")
	parse := func(t *testing.T, text string) replicate.Config {
		t.Helper()
		c, err := replicate.ParseConfig("l.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("a file without a database gets a folder beside it", func(t *testing.T) {
		c, err := parse(t, "holdfast: {window: 1ms}").ForDatabase(db)
		if err != nil || c.Replica.Path != filepath.Join(dir, "replica") || c.Window != time.Millisecond || c.DBPath != db {
			t.Errorf("got %+v, %v", c, err)
		}
	})
	t.Run("a file without a database and replicated durability is refused", func(t *testing.T) {
		_, err := parse(t, "holdfast:\n  durability: replicated").ForDatabase(db)
		if err == nil || !strings.HasPrefix(err.Error(), "l.yml:2: holdfast.durability: ") {
			t.Errorf("got %v, want line 2", err)
		}
	})
	t.Run("the same file by another way is accepted", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Skip(err)
		}
		text := fmt.Sprintf("dbs: [{path: %q, replica: {path: /backup}}]", filepath.Join(link, "holdfast.db"))
		if _, err := parse(t, text).ForDatabase(db); err != nil {
			t.Error(err)
		}
	})
	t.Run("another database is refused with its line", func(t *testing.T) {
		_, err := parse(t, "dbs:\n  - path: /elsewhere/holdfast.db\n    replica: {path: /backup}").ForDatabase(db)
		if err == nil || !strings.HasPrefix(err.Error(), "l.yml:2: dbs[0].path: names /elsewhere/holdfast.db") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the data directory as the replica is refused", func(t *testing.T) {
		_, err := replicate.ParseConfig("l.yml", fmt.Appendf(nil, "dbs:\n  - path: %q\n    replica: {path: %q}", db, dir))
		if err == nil || !strings.Contains(err.Error(), "l.yml:3: dbs[0].replica.path: ") {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzParseConfig looks for panics, for errors without a text, and for the
// value of a variable in an error.
func FuzzParseConfig(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "config", "*.yml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(strings.ReplaceAll(string(data), "HOLDFAST_TEST_SECRET", "S")))
	}
	for _, text := range []string{"*$S", "&$S a: *$S", "? $S\n: [", "$S: $S\n$S: 1", "a: \"$S\n", "holdfast: {$S: 1}", "dbs: $S", "${S", "${S\n}", "$", "%$S", "- !$S"} {
		f.Add([]byte(text))
	}
	const secret = "q:S3cret #*&{"
	f.Setenv("S", secret)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := replicate.ParseConfig("l.yml", data)
		if err == nil {
			if c, err = c.ForDatabase("/data/holdfast.db"); err == nil {
				if err := c.Validate(); err != nil {
					t.Errorf("accepted, but not valid: %v", err)
				}
				c.Stock("/data/holdfast.db", "e1")
				return
			}
		}
		var wrong *replicate.ConfigError
		if !errors.As(err, &wrong) || len(wrong.Problems) == 0 {
			t.Fatalf("got %T (%v), want a *ConfigError", err, err)
		}
		for _, p := range wrong.Problems {
			// What names a database may come from a variable and is no secret.
			if strings.TrimSpace(p.Text) == "" || p.Key != "dbs[0].path" && strings.Contains(p.String(), "S3cret") && !strings.Contains(string(data), "S3cret") {
				t.Errorf("got %q", p.String())
			}
		}
	})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSampleFile checks the file that users start from.
func TestSampleFile(t *testing.T) {
	text := readFile(t, filepath.Join("..", "litestream.yml"))
	t.Run("it says the defaults", func(t *testing.T) {
		c, err := replicate.ParseConfig("litestream.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		own := replicate.DefaultConfig("data").Settings()
		for i, s := range c.Settings() {
			if s.Value != own[i].Value {
				t.Errorf("%s: got %q, want %q", s.Name, s.Value, own[i].Value)
			}
			if s.Origin == "default" {
				t.Errorf("%s is not in the file", s.Name)
			}
		}
	})
	t.Run("its lines for a bucket can take the place of those for a folder", func(t *testing.T) {
		t.Setenv("BUCKET_NAME", "jobs")
		t.Setenv("AWS_ENDPOINT_URL_S3", "https://fly.storage.tigris.dev")
		active := regexp.MustCompile(`(?m)^dbs:\n(  .*\n)+`)
		commented := regexp.MustCompile(`(?m)^#([^ \n])`)
		indented := regexp.MustCompile(`(?m)^#(  .*)`)
		text := active.ReplaceAllString(text, "")
		text = indented.ReplaceAllString(commented.ReplaceAllString(text, "$1"), "$1")
		c, err := replicate.ParseConfig("litestream.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r := c.Replica
		if r.Type != replicate.TypeS3 || r.Bucket != "jobs" || r.Path != "holdfast" || r.Region != "auto" || r.Endpoint != "https://fly.storage.tigris.dev" {
			t.Errorf("got %+v", r)
		}
	})
}
