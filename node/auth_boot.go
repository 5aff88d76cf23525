package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"holdfast/queue"
	"holdfast/replicate"
)

// A node that others can reach must not serve without tokens. Whether there are
// any is known for sure once the database is the right one, which may have to
// be restored first; until then nothing is served. Where it is plain from the
// start, the node refuses before it touches anything.

// needsTokens reports whether the node may not serve without a token.
func (c Config) needsTokens() bool { return c.beyondLoopback() && c.AdminToken == "" }

// beyondLoopback reports whether other machines reach one of the node's ports.
func (c Config) beyondLoopback() bool { return !loopbackOnly(c.Listen) || !loopbackOnly(c.SQLListen) }

// BeyondLoopback reports whether other machines reach a node that listens on an
// address.
func BeyondLoopback(listen string) bool { return !loopbackOnly(listen) }

// HasTokens reports whether the database of a data directory has an access
// token. No other process may have it open.
func HasTokens(ctx context.Context, data string) bool {
	id, err := queue.Inspect(ctx, DatabasePath(data))
	return err == nil && id.Tokens > 0
}

// errNoTokens says what to do.
func (c Config) errNoTokens() error {
	name, addr := "listen", c.Listen
	if loopbackOnly(addr) {
		name, addr = "sql listen", c.SQLListen
	}
	return &ConfigError{Problems: []string{fmt.Sprintf(
		name+": %s is beyond loopback, and there is no access token yet. Set HOLDFAST_ADMIN_TOKEN to a secret (openssl rand -hex 32 makes one) or name its file with --admin-token-file; "+
			"or listen on %s, and make a token there with holdfast token create", addr, DefaultListen)}}
}

// checkNew refuses a node whose database would be a new one.
func (c Config) checkNew() error {
	if !c.needsTokens() || !c.Embedded && !c.NoReplica {
		return nil // a restore may bring tokens
	}
	if there(DatabasePath(c.Data)) || c.Replication.Replica.Type == replicate.TypeFile && there(c.Replication.Replica.Path) {
		return nil
	}
	return c.errNoTokens()
}

func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// checkOld refuses a node whose database has no tokens. The directory is
// locked. What else is wrong with the file is for the boot to say.
func (c Config) checkOld(ctx context.Context) error {
	if !c.needsTokens() {
		return nil
	}
	if id, err := queue.Inspect(ctx, DatabasePath(c.Data)); err == nil && id.Tokens == 0 {
		return c.errNoTokens()
	}
	return nil
}

// checkTokens reads the tokens of the opened database, and refuses to serve
// without one where one is needed.
func (n *node) checkTokens(ctx context.Context, q engine) error {
	store, ok := q.(TokenStore)
	if !ok {
		return nil
	}
	if err := n.api.gate.load(ctx, store); err != nil {
		return fmt.Errorf("access tokens: %w", err)
	}
	if n.cfg.needsTokens() && !n.api.gate.known.Load().any {
		return n.cfg.errNoTokens()
	}
	return nil
}
