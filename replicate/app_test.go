package replicate

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"holdfast/tests/s3server"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	if os.Getenv("HOLDFAST_TEST_CHILD") == "" {
		os.Unsetenv("AWS_CA_BUNDLE") // it breaks the S3 client; PrepareEnvironment has a test of its own
	}
	os.Exit(m.Run())
}

// app is a small application over a replicated database, as a node is: it
// opens the file that Acquire left, counts its commits and notifies.
type app struct {
	t    *testing.T
	opts Options
	p    *Primary
	db   *sql.DB
	last atomic.Int64 // seq of the last commit
}

func inspectApp(_ context.Context, path string) (State, error) {
	var s State
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return s, err
	}
	defer db.Close()
	err = db.QueryRow("select lineage, epoch, seq from app").Scan(&s.Lineage, &s.Epoch, &s.Seq)
	return s, err
}

func testConfig(r Replica) Config {
	c := DefaultConfig("")
	c.Replica = r
	c.SyncInterval = 20 * time.Millisecond
	return c
}

func appOptions(dir, node string, r Replica) Options {
	out := io.Discard
	if testing.Verbose() {
		out = os.Stderr
	}
	return Options{
		Dir: dir, Database: filepath.Join(dir, "app.db"), Config: testConfig(r), Node: node, Schema: 1, Inspect: inspectApp,
		Logger: slog.New(slog.NewTextHandler(out, nil)).With("node", node), lookForLife: 200 * time.Millisecond,
	}
}

func initRoot(t *testing.T, opts Options) {
	t.Helper()
	if _, err := Init(ctx, opts.Config.Replica, opts.Logger); err != nil {
		t.Fatal(err)
	}
}

// newRoot begins a root, and returns the options of a node a in it.
func newRoot(t *testing.T, r Replica) Options {
	t.Helper()
	opts := appOptions(t.TempDir(), "a", r)
	initRoot(t, opts)
	return opts
}

// newS3Root is newRoot on a server of its own.
func newS3Root(t *testing.T) (*s3server.Server, Options) {
	t.Helper()
	s := s3server.Start(t)
	return s, newRoot(t, s3Replica(s.Proxy))
}

// bootApp acquires the root and starts.
func bootApp(t *testing.T, opts Options) (*app, error) {
	t.Helper()
	p, err := Acquire(ctx, opts)
	if err != nil {
		return nil, err
	}
	a := &app{t: t, opts: opts, p: p}
	a.db, err = sql.Open("sqlite", "file:"+opts.Database+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=wal_autocheckpoint(0)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	a.db.SetMaxOpenConns(1)
	if _, err := a.db.Exec("create table if not exists app(lineage text, epoch int, seq int); create table if not exists item(id integer primary key, text text)"); err != nil {
		return nil, err
	}
	var n int
	if err := a.db.QueryRow("select count(*) from app").Scan(&n); err != nil {
		return nil, err
	}
	if n == 0 {
		_, err = a.db.Exec("insert into app values (?, 0, 0)", p.Lineage())
	}
	if err == nil {
		_, err = a.db.Exec("update app set epoch = ?", p.Epoch())
	}
	var seq int64
	if err == nil {
		err = a.db.QueryRow("select seq from app").Scan(&seq)
	}
	a.last.Store(seq)
	if err == nil {
		err = p.Start(ctx, a.seq)
	}
	if err != nil {
		return nil, errors.Join(err, a.kill())
	}
	return a, nil
}

func mustBoot(t *testing.T, opts Options) *app {
	t.Helper()
	a, err := bootApp(t, opts)
	if err != nil {
		t.Fatalf("boot: %v", err)
	}
	return a
}

func (a *app) seq() int64 { return a.last.Load() }

func (a *app) add(text string) {
	a.t.Helper()
	tx, err := a.db.Begin()
	if err == nil {
		_, err = tx.Exec("insert into item(text) values (?)", text)
	}
	if err == nil {
		_, err = tx.Exec("update app set seq = seq + 1")
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		a.t.Fatalf("add: %v", err)
	}
	a.last.Add(1)
	a.p.Notify()
}

// items are the texts in the order in which they were added.
func (a *app) items() string {
	a.t.Helper()
	return itemsOf(a.t, a.db)
}

func itemsOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.Query("select text from item order by id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	s := ""
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		s += text + " "
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// synced waits until everything is in the replica.
func (a *app) synced() {
	a.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s := a.p.Status(); s.ReplicatedSeq >= a.seq() && s.PendingSince.IsZero() {
			return
		}
	}
	a.t.Fatalf("not replicated: %+v", a.p.Status())
}

// stop ends as SIGTERM does.
func (a *app) stop() {
	a.t.Helper()
	c, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := errors.Join(a.db.Close(), a.p.Stop(c)); err != nil {
		a.t.Errorf("stop: %v", err)
	}
}

// kill ends without a word to the root, much as SIGKILL does: nothing more is
// uploaded or written.
func (a *app) kill() error {
	a.p.lose(errors.New("killed"))
	a.p.letGo()
	// The WAL stays as it is: Litestream's read lock is still held while the
	// application closes, and the files are then left to the next boot.
	err := a.db.Close()
	if s := a.p.stream; s != nil && s.opened() {
		_ = s.close(ctx)
	}
	return errors.Join(err, a.p.boot.store.close())
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func wantItems(t *testing.T, a *app, want string) {
	t.Helper()
	if got := a.items(); got != want {
		t.Errorf("items %q, want %q", got, want)
	}
	var check string
	if err := a.db.QueryRow("pragma integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity_check: %s, %v", check, err)
	}
}

// backends runs a test on each kind of root.
func backends(t *testing.T, f func(t *testing.T, r Replica)) {
	t.Run("folder", func(t *testing.T) {
		f(t, Replica{Type: "file", Path: filepath.Join(t.TempDir(), "replica")})
	})
	t.Run("s3", func(t *testing.T) {
		s := s3server.Start(t)
		f(t, s3Replica(s.Proxy))
	})
}

func s3Replica(p *s3server.Proxy) Replica {
	return Replica{
		Type: "s3", Bucket: "bucket", Path: "root", Endpoint: p.URL, Region: "us-east-1",
		AccessKeyID: s3server.AccessKeyID, SecretAccessKey: s3server.SecretAccessKey,
	}
}

func wantEpoch(t *testing.T, a *app, want int64) {
	t.Helper()
	if got := a.p.Epoch(); got != want {
		t.Errorf("epoch %d, want %d", got, want)
	}
}
