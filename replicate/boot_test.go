package replicate

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBoot(t *testing.T) {
	t.Run("a root without lock.json is refused, Init begins it once", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := appOptions(t.TempDir(), "a", r)
			_, err := bootApp(t, opts)
			wantErr(t, err, ErrNoLock)
			initRoot(t, opts)
			_, err = Init(ctx, r, opts.Logger)
			wantErr(t, err, ErrExists)
			a := mustBoot(t, opts)
			wantEpoch(t, a, 1)
			a.stop()
		})
	})
	t.Run("after a stop the same epoch goes on and no base is uploaded", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.add("two")
			a.stop()
			a = mustBoot(t, opts)
			wantEpoch(t, a, 1)
			wantItems(t, a, "one two ")
			before := a.p.Status().TXID
			a.add("three")
			a.synced()
			if after := a.p.Status().TXID; after != before+1 {
				t.Errorf("TXID %d, then %d: more than the one change was uploaded", before, after)
			}
			a.stop()
		})
	})
	t.Run("after a kill the same epoch goes on with all that was committed", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.synced()
			a.p.lose(os.ErrClosed) // no further upload
			a.add("two")
			if err := a.kill(); err != nil {
				t.Fatal(err)
			}
			a = mustBoot(t, opts)
			wantEpoch(t, a, 1)
			wantItems(t, a, "one two ")
			a.synced()
			a.stop()
		})
	})
	t.Run("after a kill and a restart of the machine the own file is the base of the next epoch", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.synced()
			a.p.lose(os.ErrClosed)
			a.add("two")
			if err := a.kill(); err != nil {
				t.Fatal(err)
			}
			restartMachine(t, opts)
			a = mustBoot(t, opts)
			wantEpoch(t, a, 2)
			wantItems(t, a, "one two ")
			a.stop()
		})
	})
	t.Run("without the data everything that was replicated is restored", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.add("two")
			a.synced()
			if err := a.kill(); err != nil {
				t.Fatal(err)
			}
			opts2 := appOptions(t.TempDir(), "a", r)
			b := mustBoot(t, opts2)
			wantEpoch(t, b, 2)
			wantItems(t, b, "one two ")
			b.add("three")
			b.stop()
			b = mustBoot(t, opts2)
			wantEpoch(t, b, 2)
			wantItems(t, b, "one two three ")
			b.stop()
		})
	})
	t.Run("another node is refused while the root is held, and takes it when it is closed or given up", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.synced()
			if err := a.kill(); err != nil {
				t.Fatal(err)
			}
			other := appOptions(t.TempDir(), "b", r)
			_, err := bootApp(t, other)
			wantErr(t, err, ErrHeld)
			if _, err := TakeOver(ctx, r, other.Logger); err != nil {
				t.Fatal(err)
			}
			b := mustBoot(t, other)
			wantItems(t, b, "one ")
			b.stop()
			third := mustBoot(t, appOptions(t.TempDir(), "c", r))
			wantItems(t, third, "one ")
			wantEpoch(t, third, 3)
			third.stop()
		})
	})
	t.Run("an old copy of the directory is set aside, the replica restored", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.stop()
			old := filepath.Join(t.TempDir(), "old")
			copyTree(t, opts.Dir, old)
			a = mustBoot(t, opts)
			a.add("two")
			a.stop()
			replaceDir(t, opts.Dir, old)
			a = mustBoot(t, opts)
			wantItems(t, a, "one two ")
			a.stop()
			if found, _ := filepath.Glob(filepath.Join(opts.Dir, "aside", "*", "app.db")); len(found) != 1 {
				t.Errorf("set aside: %v", found)
			}
		})
	})
	t.Run("an old database among new files is refused", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.stop()
			db, wal := read(t, opts.Database), read(t, opts.Database+"-wal")
			a = mustBoot(t, opts)
			a.add("two")
			a.stop()
			write(t, opts.Database, db)
			write(t, opts.Database+"-wal", wal)
			os.Remove(opts.Database + "-shm")
			_, err := bootApp(t, opts)
			wantErr(t, err, ErrDiverged)
		})
	})
	t.Run("an empty file counts as none, a WAL left over goes aside", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			for _, empty := range []bool{true, false} {
				opts := appOptions(t.TempDir(), "a", r)
				if _, err := ReadLock(ctx, r, opts.Logger); err != nil {
					initRoot(t, opts)
				}
				a := mustBoot(t, opts)
				a.add("x")
				a.stop()
				want := read(t, opts.Database+"-wal")
				if empty {
					write(t, opts.Database, nil)
				} else if err := os.Remove(opts.Database); err != nil {
					t.Fatal(err)
				}
				b := mustBoot(t, opts)
				if got := b.items(); len(got) < 2 {
					t.Errorf("items %q", got)
				}
				b.stop()
				if found, _ := filepath.Glob(filepath.Join(opts.Dir, "aside", "*", "app.db-wal")); len(found) != 1 || string(read(t, found[0])) != string(want) {
					t.Errorf("the WAL set aside: %v", found)
				}
			}
		})
	})
	t.Run("a database of another root is refused", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.stop()
			opts.Config.Replica = Replica{Type: "file", Path: filepath.Join(t.TempDir(), "other")}
			initRoot(t, opts)
			_, err := bootApp(t, opts)
			wantErr(t, err, ErrForeign)
			opts.Config.Replica = r
			a = mustBoot(t, opts)
			wantItems(t, a, "one ")
			a.stop()
		})
	})
	t.Run("a lock.json that is deleted or cannot be read is refused, and nothing is changed", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			a.add("one")
			a.stop()
			s, err := openStore(ctx, r, opts.Logger)
			if err != nil {
				t.Fatal(err)
			}
			good, err := s.get(ctx, lockKey)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"", "garbage", "{}", `{"lineage":"x","epoch":-1}`} {
				if _, err := s.put(ctx, lockKey, []byte(bad), condition{}); err != nil {
					t.Fatal(err)
				}
				s.close()
				_, err := bootApp(t, opts)
				wantErr(t, err, ErrNoLock)
				if s, err = openStore(ctx, r, opts.Logger); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.put(ctx, lockKey, good.data, condition{}); err != nil {
				t.Fatal(err)
			}
			s.close()
			a = mustBoot(t, opts)
			wantEpoch(t, a, 1)
			wantItems(t, a, "one ")
			a.stop()
		})
	})
}

func TestEmbedded(t *testing.T) {
	dir := t.TempDir()
	opts := appOptions(dir, "a", Replica{Type: "file", Path: filepath.Join(dir, "replica")})
	opts.Embedded = true
	a := mustBoot(t, opts)
	a.add("one")
	a.stop()
	a = mustBoot(t, opts)
	wantEpoch(t, a, 1)
	wantItems(t, a, "one ")
	a.stop()
	t.Run("a replica folder that was deleted is begun anew from the database", func(t *testing.T) {
		if err := os.RemoveAll(opts.Config.Replica.Path); err != nil {
			t.Fatal(err)
		}
		a := mustBoot(t, opts)
		wantItems(t, a, "one ")
		a.add("two")
		a.stop()
		out := filepath.Join(t.TempDir(), "restored.db")
		if _, err := Restore(ctx, RestoreOptions{Replica: opts.Config.Replica, Output: out, Logger: opts.Logger, Full: true}); err != nil {
			t.Fatal(err)
		}
		if s, err := inspectApp(ctx, out); err != nil || s.Seq != 2 {
			t.Errorf("restored %+v, %v", s, err)
		}
	})
	t.Run("a database that was deleted comes back from the folder", func(t *testing.T) {
		for _, f := range []string{"", "-wal", "-shm"} {
			os.Remove(opts.Database + f)
		}
		a := mustBoot(t, opts)
		wantItems(t, a, "one two ")
		a.stop()
	})
}

// restartMachine makes node.json that of an earlier run of the machine.
func restartMachine(t *testing.T, opts Options) {
	t.Helper()
	var n nodeFile
	path := filepath.Join(opts.Dir, nodeFileName)
	if _, err := readJSON(path, &n); err != nil {
		t.Fatal(err)
	}
	n.BootID = "another"
	if err := writeJSON(path, n, true); err != nil {
		t.Fatal(err)
	}
}

// replaceDir puts a copy's files in the place of a directory's, which stays the
// same directory.
func replaceDir(t *testing.T, dir, from string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	copyTree(t, from, dir)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
