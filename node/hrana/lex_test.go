package hrana

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		outcome, text string
		want          []string
	}{
		{"statements end at semicolons", "select 1; select 2 ;;", []string{"select 1", "select 2"}},
		{"not in strings", `select ';', ";", [;], ` + "`;`" + `, x';'`, []string{`select ';', ";", [;], ` + "`;`" + `, x';'`}},
		{"nor after a doubled quote", "select 'it''s; fine'; select 2", []string{"select 'it''s; fine'", "select 2"}},
		{"nor in comments", "select 1 -- ; \n + 2 /* ; */; select 3", []string{"select 1 -- ; \n + 2", "select 3"}},
		{"nor in a variable of Tcl", "select $a(;)", []string{"select $a(;)"}},
		{"a comment that does not end is space", "select 1 /* ; ", []string{"select 1"}},
		{"a string that does not end goes to the end", "select '; ", []string{"select '; "}},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			var got []string
			for _, s := range split(tt.text) {
				got = append(got, s.text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestRecursive(t *testing.T) {
	for text, want := range map[string]bool{
		"with a as (select 1) select * from a":                                                 false,
		"with a as (select 1), b as (select * from a) select * from b":                         false,
		"with a as (select 1 union all select * from a) select 1":                              true,
		"with a(x, y) as (select 1, 2 union all select * from A) select 1":                     true,
		"with \"a\"\"b\" as not materialized (select 1 union select * from 'a\"b') select 1":   true,
		"with a as materialized (select (select 1) union select x from (select * from [a])) 1": true,
		"with recursive a as (select 1) select 1":                                              true,
		"select a as (b)": false,
	} {
		t.Run(strings.ReplaceAll(text, "/", "∕"), func(t *testing.T) {
			if got := split(text)[0].recursive(); got != want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// FuzzSplit checks that nothing of a text is lost but semicolons, blanks and
// comments, and that what is split is not split again.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"select 1; select ';' -- x", "/* ; */", "$a::b(;) ?1 :x @y #z", "[;];`;`", "x'00';X'", "with a(b) as (select * from a) select 1", "'", "\x00;",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range split(text) {
			if len(s.tokens) == 0 || s.text == "" || !strings.Contains(text, s.text) {
				t.Fatalf("%q of %q", s.text, text)
			}
			again := split(s.text)
			if len(again) != 1 || again[0].text != s.text || !slices.Equal(again[0].tokens, s.tokens) {
				t.Fatalf("%q is split again, into %d", s.text, len(again))
			}
			s.recursive()
			s.params()
			_ = admit(&s)
			var st stream
			_, _ = st.control(&s)
		}
	})
}

func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"type":"integer","value":"1"}`, `{"type":"blob","base64":"AA=="}`, `{"type":"float","value":1e9}`, `{"type":"text","value":"x"}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v value
		if v.UnmarshalJSON(text) != nil {
			return
		}
		out, err := appendValue(nil, v.v)
		if err != nil {
			t.Fatal(err)
		}
		var again value
		if err := again.UnmarshalJSON(out); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	})
}
