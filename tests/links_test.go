package tests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
)

// documents are the Markdown files that people read, as paths from the root.
func documents(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "CHANGELOG.md"}
	for _, pattern := range []string{"deploy/docs/*.md", "*/DESIGN.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, filepath.ToSlash(rel))
		}
	}
	return all
}

func TestLinks(t *testing.T) {
	links := 0
	for _, doc := range documents(t) {
		for _, target := range linksOf(readDocument(t, doc)) {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue // not ours to keep alive
			}
			links++
			if problem := checkLink(t, doc, target); problem != "" {
				t.Errorf("%s: (%s) %s", doc, target, problem)
			}
		}
	}
	if links < 10 {
		t.Errorf("%d links are too few to be all", links)
	}
}

func readDocument(t *testing.T, doc string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(doc)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// prose is a text without its code.
func prose(text string) string {
	var kept strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func linksOf(text string) []string {
	var all []string
	for _, m := range markdownLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(prose(text), "code"), -1) {
		all = append(all, m[1])
	}
	return all
}

// checkLink says what is wrong with a relative link, or "".
func checkLink(t *testing.T, doc, target string) string {
	t.Helper()
	path, anchor, _ := strings.Cut(target, "#")
	to := doc
	if path != "" {
		to = filepath.ToSlash(filepath.Join(filepath.Dir(doc), path))
	}
	if strings.HasPrefix(to, "../") {
		return "leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return "is not there"
	}
	if anchor == "" {
		return ""
	}
	if !slices.Contains(anchorsOf(readDocument(t, to)), anchor) {
		return "has no such heading"
	}
	return ""
}

// anchorsOf are the names under which GitHub makes headings reachable.
func anchorsOf(text string) []string {
	var all []string
	for line := range strings.Lines(prose(text)) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		var name strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
			switch {
			case r == ' ':
				name.WriteRune('-')
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f:
				name.WriteRune(r)
			}
		}
		all = append(all, name.String())
	}
	return all
}

func TestLinkCheckFindsMistakes(t *testing.T) {
	for target, want := range map[string]string{
		"README.md#how-it-works": "",
		"no-such.md":             "is not there",
		"README.md#no-such":      "has no such heading",
		"../elsewhere.md":        "leads out of the repository",
	} {
		if got := checkLink(t, "README.md", target); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	text := "see [a](b.md) and `[c](d)`\n```\n[e](f)\n```\n"
	if got := linksOf(text); !slices.Equal(got, []string{"b.md"}) {
		t.Errorf("got %v", got)
	}
}
