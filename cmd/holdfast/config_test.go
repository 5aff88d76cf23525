package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"holdfast/replicate"
)

// writeConfig writes a litestream.yml for the database of dir.
func writeConfig(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "litestream.yml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const bucketConfig = `dbs:
  - path: DIR/holdfast.db
    replica:
      type: s3
      bucket: jobs
      access-key-id: AKIA123
      secret-access-key: ${HOLDFAST_TEST_SECRET}
holdfast:
  window: 20ms
`

func TestConfigShow(t *testing.T) {
	s := &shell{t: t}
	dir := t.TempDir()
	path := writeConfig(t, dir, bucketConfig)
	t.Setenv("HOLDFAST_TEST_SECRET", "hunter2")
	t.Run("without a file the defaults are shown", func(t *testing.T) {
		out := s.ok("config", "show", "--data", dir)
		wantText(t, out, `(?m)^SETTING +VALUE$`, `(?m)^data +`+dir+`$`, `(?m)^config +-$`, `(?m)^replica.path +`+dir+`/replica$`, `(?m)^holdfast.failover +manual$`)
	})
	t.Run("each origin is named", func(t *testing.T) {
		t.Setenv("HOLDFAST_LISTEN", "127.0.0.1:7799")
		out := s.ok("--config", path, "config", "show", "--origin", "--data", dir)
		wantText(t, out, `(?m)^data .* flag --data$`, `(?m)^listen +127.0.0.1:7799 +env HOLDFAST_LISTEN$`, `(?m)^config .* flag --config$`,
			`(?m)^replica.bucket +jobs +`+path+`:5$`, `(?m)^holdfast.window +20ms +`+path+`:9$`, `(?m)^sync-interval +1s +default$`)
	})
	t.Run("a flag counts before the variable", func(t *testing.T) {
		t.Setenv("HOLDFAST_LISTEN", "127.0.0.1:7799")
		wantText(t, s.ok("config", "show", "--origin", "--listen", "127.0.0.1:1"), `(?m)^listen +127.0.0.1:1 +flag --listen$`)
	})
	t.Run("secrets are not shown", func(t *testing.T) {
		t.Setenv("HOLDFAST_CONFIG", path)
		for _, args := range [][]string{{"config", "show", "--data", dir}, {"config", "show", "--data", dir, "--json"}} {
			out := s.ok(args...)
			if strings.Contains(out, "hunter2") || strings.Contains(out, "AKIA123") || !strings.Contains(out, "…") {
				t.Errorf("got %s", out)
			}
		}
	})
	t.Run("json has name, value and origin", func(t *testing.T) {
		var got struct{ Settings []replicate.Setting }
		if err := json.Unmarshal([]byte(s.ok("config", "show", "--json", "--data", dir, "--config", path)), &got); err != nil {
			t.Fatal(err)
		}
		if want := (replicate.Setting{Name: "data", Value: dir, Origin: "flag --data"}); len(got.Settings) < 10 || got.Settings[0] != want {
			t.Errorf("got %+v, want %+v first", got.Settings, want)
		}
	})
}

// samples are values for the flags of serve that do not take any text.
var samples = map[string]string{
	"data": "DIR", "config": "DIR/litestream.yml", "alert-dead": "7", "alert-oldest": "1h30m", "alert-exposed": "2d", "alert-webhook": "https://hooks.example.com",
}

// TestConfigShowHasEveryFlagOfServe: what a node can be told is shown, and from
// where it was told.
func TestConfigShowHasEveryFlagOfServe(t *testing.T) {
	s := &shell{t: t}
	dir := t.TempDir()
	writeConfig(t, dir, "holdfast:\n  window: 20ms\n")
	seen := 0
	for _, f := range serveCommand().Flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue // for benchmarks
		}
		seen++
		name := f.Names()[0]
		value := strings.ReplaceAll(cmp.Or(samples[name], "of-"+name), "DIR", dir)
		setting := func(args ...string) replicate.Setting {
			t.Helper()
			var got struct{ Settings []replicate.Setting }
			s.read(&got, append([]string{"config", "show"}, args...)...)
			i := slices.IndexFunc(got.Settings, func(s replicate.Setting) bool { return s.Name == name })
			if i < 0 {
				t.Fatalf("config show does not have --%s", name)
			}
			return got.Settings[i]
		}
		t.Run(name, func(t *testing.T) {
			if got := setting(); got.Origin != "default" {
				t.Errorf("got %+v", got)
			}
			if got, want := setting("--"+name, value), (replicate.Setting{Name: name, Value: value, Origin: "flag --" + name}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			variables := f.(cli.DocGenerationFlag).GetEnvVars()
			if len(variables) != 1 {
				t.Fatalf("--%s has the variables %v", name, variables)
			}
			t.Setenv(variables[0], strings.NewReplacer("1h30m", "90m", "2d", "48h").Replace(value)) // another way to write it
			if got, want := setting(), (replicate.Setting{Name: name, Value: value, Origin: "env " + variables[0]}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if seen < 15 {
		t.Errorf("%d flags were seen", seen)
	}
}

func TestConfigShowKeepsTheWebhookToItself(t *testing.T) {
	s := &shell{t: t}
	for given, want := range map[string]string{
		"https://hooks.example.com/services/hunter2": "https://hooks.example.com/…", "https://me:hunter2@hooks.example.com": "https://hooks.example.com/…",
		"https://hooks.example.com?key=hunter2": "https://hooks.example.com/…", "hunter2": "…", "://hunter2": "…", "http://127.0.0.1:9": "http://127.0.0.1:9",
	} {
		if got := s.ok("config", "show", "--alert-webhook", given); !strings.Contains(got, want+"\n") || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got %s", given, got)
		}
	}
}

func TestBadConfigIsAUsageErrorWithItsLines(t *testing.T) {
	s := &shell{t: t}
	dir := t.TempDir()
	path := writeConfig(t, dir, "holdfast:\n  failover: maybe\n  lease-ttl: 1s\nlevles: []\n")
	other := writeConfig(t, t.TempDir(), bucketConfig)
	t.Setenv("HOLDFAST_TEST_SECRET", "hunter2")
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"every problem of the file, by config show": {[]string{"config", "show", "--config", path, "--data", dir}, []string{
			`(?m)^holdfast: ` + path + `:3: holdfast.lease-ttl: unknown key; did you mean lease_ttl\?$`,
			`(?m)^holdfast: ` + path + `:4: levles: unknown key; did you mean levels\?$`,
		}},
		"the same by serve": {[]string{"serve", "--config", path, "--data", dir}, []string{`:3: holdfast.lease-ttl: `, `:4: levles: `}},
		"a file for another database": {[]string{"config", "show", "--config", other, "--data", dir}, []string{
			`^holdfast: ` + other + `:2: dbs\[0\].path: names .*, but the database of the data directory is ` + dir + `/holdfast.db\n$`,
		}},
		"no such file": {[]string{"config", "show", "--config", dir + "/none.yml"}, []string{`^holdfast: --config: read config: open .*none.yml: no such file`}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := s.run(test.args...)
			if code != exitUsage {
				t.Errorf("got exit code %d, want %d: %s", code, exitUsage, stderr)
			}
			wantText(t, stderr, test.want...)
		})
	}
}

func TestPrepareEnvironmentWarns(t *testing.T) {
	s := &shell{t: t}
	t.Setenv("SSL_CERT_FILE", "") // what a machine sets, or an earlier test
	t.Setenv("AWS_CA_BUNDLE", "/no/such/bundle.pem")
	code, stdout, stderr := s.run("version")
	if code != exitOK || !strings.HasPrefix(stdout, "holdfast ") {
		t.Errorf("got exit code %d and %q, want the version", code, stdout)
	}
	wantText(t, stderr, `^holdfast: warning: AWS_CA_BUNDLE is not used: open /no/such/bundle.pem: `)
	if value, set := os.LookupEnv("AWS_CA_BUNDLE"); set {
		t.Errorf("got AWS_CA_BUNDLE=%s, want it gone", value)
	}
}
