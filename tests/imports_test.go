package tests_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module     = "holdfast"
	litestream = "github.com/benbjohnson/litestream"
)

// edge is an import of one package by another, by import paths.
type edge struct {
	from, to string
}

// TestImports reads the sources themselves, which makes it sensitive to every
// change of them: go list in a child process would leave it cached.
func TestImports(t *testing.T) {
	edges, err := importsBelow(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []edge{
		{"holdfast/node", "holdfast/queue"},
		{"holdfast/node", "holdfast/node/client"},
		{"holdfast/queue", "database/sql"},
	} {
		if !slices.Contains(edges, must) {
			t.Errorf("%s → %s was not found: the walk does not see what it should", must.from, must.to)
		}
	}
	for _, e := range edges {
		if reason := forbidden(e); reason != "" {
			t.Errorf("%s → %s: %s", e.from, e.to, reason)
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	tests := []struct {
		edge edge
		bad  bool
	}{
		{edge{"holdfast/cmd/holdfast", "holdfast/node"}, false},
		{edge{"holdfast/cmd/holdfast", "holdfast/node/bench"}, false},
		{edge{"holdfast/cmd/holdfast", "holdfast/replicate"}, false},
		{edge{"holdfast/cmd/holdfast", "github.com/urfave/cli/v2"}, false},
		{edge{"holdfast/cmd/holdfast", "holdfast/queue"}, true},
		{edge{"holdfast/node", "holdfast/queue"}, false},
		{edge{"holdfast/node", "holdfast/replicate"}, false},
		{edge{"holdfast/node", "holdfast/node/hrana"}, false},
		{edge{"holdfast/node", "holdfast/cmd/holdfast"}, true},
		{edge{"holdfast/node", "holdfast/tests"}, true},
		{edge{"holdfast/node/client", "net/http"}, false},
		{edge{"holdfast/node/client", "holdfast/queue"}, true},
		{edge{"holdfast/node/client", "holdfast/node"}, true},
		{edge{"holdfast/node/client", "golang.org/x/sync/errgroup"}, true},
		{edge{"holdfast/node/client/deeper", "golang.org/x/sync/errgroup"}, true},
		{edge{"holdfast/node/bench", "holdfast/queue"}, false},
		{edge{"holdfast/node/bench", "holdfast/replicate"}, false},
		{edge{"holdfast/node/bench", "holdfast/node/client"}, false},
		{edge{"holdfast/node/bench", "holdfast/node"}, true},
		{edge{"holdfast/node/bench", "holdfast/node/hrana"}, true},
		{edge{"holdfast/node/hrana", "modernc.org/sqlite"}, false},
		{edge{"holdfast/node/hrana", "holdfast/queue"}, true},
		{edge{"holdfast/node/dashboard", "holdfast/node/client"}, true},
		{edge{"holdfast/node/dashboard", "holdfast/node/dashboard/page"}, false},
		{edge{"holdfast/queue", "modernc.org/sqlite"}, false},
		{edge{"holdfast/queue", "holdfast/node/client"}, true},
		{edge{"holdfast/queue", "holdfast/replicate"}, true},
		{edge{"holdfast/replicate", "holdfast/queue"}, true},
		{edge{"holdfast/replicate", "holdfast/replicate/lease"}, false},
		{edge{"holdfast/replicate", litestream}, false},
		{edge{"holdfast/replicate/lease", litestream + "/s3"}, false},
		{edge{"holdfast/node", litestream}, true},
		{edge{"holdfast/queue", litestream + "/file"}, true},
		{edge{"holdfast/node", litestream + "er"}, false},
		{edge{"holdfast/tests", "holdfast/node/client"}, false},
		{edge{"holdfast/tests", "holdfast/tests/s3server"}, false},
		{edge{"holdfast/tests/s3server", "github.com/gofrs/flock"}, false},
		{edge{"holdfast/tests/s3server", "holdfast/node/client"}, true},
		{edge{"holdfast/tests", "holdfast/node"}, true},
		{edge{"holdfast/tests", "holdfast/queue"}, true},
		{edge{"holdfast/deploy", "fmt"}, true},
		{edge{"holdfast/util", "fmt"}, true},
		{edge{"holdfast", "fmt"}, true},
		{edge{"holdfast/nodes", "holdfast/queue"}, true},
	}
	for _, tt := range tests {
		outcome := "allowed"
		if tt.bad {
			outcome = "forbidden"
		}
		t.Run(fmt.Sprintf("%s to %s is %s", tt.edge.from, tt.edge.to, outcome), func(t *testing.T) {
			if reason := forbidden(tt.edge); (reason != "") != tt.bad {
				t.Errorf("got %q", reason)
			}
		})
	}
}

// ours says what a package may import of ours: "x" is x alone, "x/*" all that
// is below x. The second result is false for a package that should not exist.
func ours(pkg string) ([]string, bool) {
	for _, tree := range []string{"queue", "replicate", "node/client", "node/hrana", "node/dashboard"} {
		if within(pkg, tree) {
			return []string{tree, tree + "/*"}, true
		}
	}
	switch {
	case pkg == "cmd/holdfast":
		return []string{"node", "node/*", "replicate"}, true
	case pkg == "node":
		return []string{"queue", "replicate", "node/*"}, true
	case strings.HasPrefix(pkg, "node/"): // what a command needs
		return []string{"queue", "replicate", "node/client"}, true
	case pkg == "tests":
		return []string{"node/client", "tests/s3server"}, true
	case pkg == "tests/s3server": // tests of replicate and of node use it too
		return nil, true
	}
	return nil, false
}

// forbidden says why e must not be, or "".
func forbidden(e edge) string {
	from := strings.TrimPrefix(e.from, module+"/")
	allowed, known := ours(from)
	if !known {
		return "the package has no place in the tree"
	}
	if within(e.to, litestream) && !within(from, "replicate") {
		return "only replicate imports litestream"
	}
	if !within(e.to, module) {
		host, _, _ := strings.Cut(e.to, "/")
		if within(from, "node/client") && strings.Contains(host, ".") {
			return "node/client imports the standard library only"
		}
		return ""
	}
	to := strings.TrimPrefix(e.to, module+"/")
	for _, pattern := range allowed {
		tree, wide := strings.CutSuffix(pattern, "/*")
		if to == pattern || wide && strings.HasPrefix(to, tree+"/") {
			return ""
		}
	}
	return fmt.Sprintf("of ours it may import only %q", allowed)
}

// within reports whether pkg is the root of tree or below it.
func within(pkg, tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") }

// importsBelow returns every import of the module at dir: those of the
// packages, without their tests, and those of the tests in ./tests, which are
// the package there.
func importsBelow(dir string) ([]edge, error) {
	var edges []edge
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			if rel != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") && path.Dir(rel) != "tests" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			edges = append(edges, edge{path.Join(module, path.Dir(rel)), to})
		}
		return nil
	})
	return edges, err
}
