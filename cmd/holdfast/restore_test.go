package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/replicate"
)

func TestRestoreUsage(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.db")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, args, want string
	}{
		{"without a file", "restore", "-o FILE"},
		{"a file that is there", "restore -o " + there, "is there already"},
		{"a TXID and a time", "restore -o x.db --txid 1 --time 2026-11-30T08:00:00Z", "exclude each other"},
		{"no TXID", "restore -o x.db --txid seven", "is not a TXID"},
		{"no time", "restore -o x.db --time yesterday", "is not a time"},
		{"a time to come", "restore -o x.db --time 2926-11-30T08:00:00Z", "is yet to come"},
		{"no epoch", "restore -o x.db --epoch 0", "--epoch: 0"},
		{"init of the folder in the data directory", "init", "begins by itself"},
		{"replica alone", "replica", "one of url, config, ls, verify"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" is a usage error", func(t *testing.T) {
			var errs bytes.Buffer
			args := append(strings.Fields(tt.args), "--data", dir)
			if tt.args == "replica" {
				args = []string{"replica"}
			}
			if code := run(t.Context(), args, nil, io.Discard, &errs); code != exitUsage || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("exit code %d, want 2 with %q: %s", code, tt.want, errs.String())
			}
		})
	}
	t.Run("a replica that was never begun is refused", func(t *testing.T) {
		for _, args := range []string{"restore -o x.db", "replica url", "replica ls", "replica verify", "takeover"} {
			var errs bytes.Buffer
			if code := run(t.Context(), append(strings.Fields(args), "--data", dir), nil, io.Discard, &errs); code != exitRefused || !strings.Contains(errs.String(), "no lock.json") {
				t.Errorf("%s: exit code %d, want 6: %s", args, code, errs.String())
			}
		}
	})
}

func TestProgress(t *testing.T) {
	at := replicate.Progress{Bytes: 12_300_000, Total: 40_100_000, Elapsed: 1500 * time.Millisecond}
	t.Run("on a terminal it is a line that is rewritten", func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, terminal: true}
		p.tell(at)
		p.end()
		if got, want := out.String(), "\r\x1b[Krestoring 12.3 MB of 40.1 MB, 8.2 MB/s, 3s left\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("elsewhere it is logged now and then", func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, log: slog.New(slog.NewTextHandler(&out, nil)), logged: time.Now()}
		p.tell(at)
		if out.Len() > 0 {
			t.Errorf("at once: %s", out.String())
		}
		p.logged = time.Now().Add(-logProgress)
		p.tell(at)
		p.tell(at)
		p.end()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "bytes=12300000 total=40100000 rate=8200000 left=3s") {
			t.Errorf("got %s", got)
		}
	})
}
