package tests_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// How README marks what this test runs. Its fenced blocks are taken in their
// order, all in one new directory, with one node:
//
//	```sh       is run by `sh -eu` and must succeed. Variables that it sets are
//	            there in the blocks after it. A line with `holdfast serve` or
//	            `holdfast work`, or that ends with &, is started and left running.
//	```sh skip  is not run (a clone, an installation, a long measurement).
//	```go       is the main.go of a program that must succeed, with our modules.
//	```js       is a module that Node.js must run, where tests/sqlclients are installed.
//	```json     right after a block that ran is the shape of its last line of
//	            output: an object may have more members than shown, numbers under
//	            keys that end in _ms may differ, … stands for anything.
//	```go NAME  (or js, or python) is written to the file NAME, for the block after
//	            it. The clients in deploy/clients are there as if installed.
//	```text     right after a block that ran is its output, … for anything.
//
// In commands `go run ./cmd/holdfast`, `bin/holdfast` and `holdfast` are the
// binary under test; ports 7780 and, for SQL, 7781 are whatever is free.

// snippet is a fenced block of README.
type snippet struct {
	line int    // of its fence
	info string // what follows the fence, such as "sh"
	text string
}

// snippets returns the fenced blocks of a Markdown text.
func snippets(text string) []snippet {
	var all []snippet
	var open *snippet
	number := 0
	for line := range strings.Lines(text) {
		number++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &snippet{line: number, info: strings.TrimSpace(fence)}
		case isFence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return all
}

var (
	ourBinary   = regexp.MustCompile(`go run \./cmd/holdfast|(\./)?bin/holdfast\b`)
	longRunning = regexp.MustCompile(`\bholdfast (.* )?(serve|work)\b|&\s*$`)
	goVersion   = regexp.MustCompile(`(?m)^go \S+$`)
	program     = regexp.MustCompile(`^(go|js|python) (\S+)$`)
)

// manual runs the snippets of README.
type manual struct {
	t    *testing.T
	dir  string // where they run
	port string // in place of 7780
	sql  string // in place of 7781
	env  []string
	out  string // of the last block that ran
}

func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if os.IsNotExist(err) {
		skip(t, "there is no README.md")
	}
	if err != nil {
		t.Fatal(err)
	}
	needTool(t, "sh")
	blocks := snippets(string(text))
	for _, tool := range []string{"curl", "jq"} {
		for _, b := range blocks {
			if b.info == "sh" && regexp.MustCompile(`\b`+tool+`\b`).MatchString(b.text) {
				needTool(t, tool)
			}
		}
	}
	lookAtClient(t, jsClient)
	lookAtClient(t, pythonClient)
	for _, b := range blocks {
		switch {
		case strings.HasPrefix(b.info, "js "):
			nodeJS(t)
		case strings.HasPrefix(b.info, "python "):
			python3(t)
		}
	}
	m := newManual(t)
	ran := 0
	for i, b := range blocks {
		after := i > 0 && (blocks[i-1].info == "sh" || blocks[i-1].info == "go" || blocks[i-1].info == "js" && m.out != "")
		switch {
		case b.info == "sh":
			m.run(b)
			ran++
		case program.MatchString(b.info):
			m.write(program.FindStringSubmatch(b.info)[2], b.text)
		case b.info == "go":
			m.runGo(b)
			ran++
		case b.info == "js":
			m.runJS(b)
		case b.info == "json" && after:
			if problem := matchJSON(b.text, m.out); problem != "" {
				t.Errorf("README.md:%d: %s; the command printed:\n%s", b.line, problem, m.out)
			}
		case b.info == "text" && after:
			if problem := matchText(b.text, m.out); problem != "" {
				t.Errorf("README.md:%d: %s; the command printed:\n%s", b.line, problem, m.out)
			}
		}
	}
	if ran == 0 {
		t.Error("README has no ```sh block that runs")
	}
	t.Logf("%d blocks ran", ran)
}

func newManual(t *testing.T) *manual {
	t.Helper()
	dir := t.TempDir()
	addr, sql := freeAddr(t), freeAddr(t)
	bin := filepath.Dir(binary(t))
	// An error answer must fail a block; README's curl need not say so.
	if err := os.WriteFile(filepath.Join(dir, ".curlrc"), []byte("fail-with-body\nsilent\nshow-error\nmax-time = 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &manual{
		t: t, dir: dir, port: addr[strings.LastIndex(addr, ":")+1:], sql: sql[strings.LastIndex(sql, ":")+1:],
		env: cleanEnv("PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "CURL_HOME="+dir,
			"HOLDFAST_LISTEN="+addr, "HOLDFAST_SQL_LISTEN="+sql, "HOLDFAST_URL=http://"+addr),
	}
	m.install()
	return m
}

// install makes the clients known to programs in the manual's directory.
func (m *manual) install() {
	m.t.Helper()
	abs := func(path string) string {
		found, err := filepath.Abs(path)
		if err != nil {
			m.t.Fatal(err)
		}
		return found
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.write("go.work", string(goVersion.Find(mod))+"\n\nuse "+filepath.ToSlash(abs(root))+"\n")
	modules := filepath.Join(m.dir, "node_modules")
	if err := os.Mkdir(modules, 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(abs(jsClient), filepath.Join(modules, "holdfast-client")); err != nil {
		m.t.Fatal(err)
	}
	m.env = append(m.env, "PYTHONPATH="+abs(pythonClient), "PYTHONDONTWRITEBYTECODE=1")
}

// write makes a file in the manual's directory.
func (m *manual) write(name, text string) {
	m.t.Helper()
	text = strings.ReplaceAll(text, "7780", m.port)
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// run runs a block: what comes before a long-running line, then that line, and
// so on.
func (m *manual) run(b snippet) {
	m.t.Helper()
	text := ourBinary.ReplaceAllString(b.text, "holdfast")
	text = strings.ReplaceAll(text, "7780", m.port)
	text = strings.ReplaceAll(text, "\\\n", " ")
	m.out = ""
	pending := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") || !longRunning.MatchString(line) {
			pending += line
			continue
		}
		m.shell(b, pending)
		pending = ""
		m.start(line)
	}
	m.shell(b, pending)
}

// runGo runs a program with the modules of ours.
func (m *manual) runGo(b snippet) {
	m.t.Helper()
	dir := m.t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	m.program(b, dir, "main.go", "go", "run", ".")
}

// runJS runs a module where its packages are installed.
func (m *manual) runJS(b snippet) {
	m.t.Helper()
	m.out = ""
	dir, ok := npmModules(m.t, "sqlclients", "clients.mjs")
	if !ok {
		m.t.Logf("README.md:%d is not run: the packages of tests/sqlclients are not installed", b.line)
		return
	}
	m.program(b, dir, "readme.mjs", "node", "readme.mjs")
}

// program runs a block as a file.
func (m *manual) program(b snippet, dir, file string, command ...string) {
	m.t.Helper()
	text := strings.ReplaceAll(strings.ReplaceAll(b.text, "7780", m.port), "7781", m.sql)
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, m.env
	code, stdout, stderr := run(m.t, cmd)
	if code != 0 {
		m.t.Fatalf("README.md:%d: exit code %d of\n%s\n%s%s", b.line, code, b.text, stdout, stderr)
	}
	m.out = stdout
}

// shell runs lines to their end. The variables of a block outlive its shell in
// a file.
func (m *manual) shell(b snippet, lines string) {
	m.t.Helper()
	if strings.TrimSpace(lines) == "" {
		return
	}
	script := "[ ! -e .variables ] || . ./.variables\nset -aeu\n" + lines + "\nexport -p >.variables\n"
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = m.dir, m.env
	code, stdout, stderr := run(m.t, cmd)
	if code != 0 {
		m.t.Fatalf("README.md:%d: exit code %d of\n%s\n%s%s", b.line, code, lines, stdout, stderr)
	}
	m.out += stdout
}

// start starts a long-running line, and waits for a node until it is ready.
func (m *manual) start(line string) {
	m.t.Helper()
	line = strings.TrimSuffix(strings.TrimSpace(line), "&")
	// exec, so that the process is the one that ends with the test.
	if strings.Contains(line, "holdfast ") {
		line = strings.Replace(line, "holdfast ", "exec holdfast ", 1)
	} else {
		line = "exec " + line
	}
	cmd := exec.Command("sh", "-c", "[ ! -e .variables ] || . ./.variables\n"+line)
	cmd.Dir, cmd.Env = m.dir, m.env
	p := launch(m.t, cmd)
	if strings.Contains(line, " serve") {
		n := node{process: p, url: "http://127.0.0.1:" + m.port}
		n.waitReady(10 * time.Second)
	}
}
