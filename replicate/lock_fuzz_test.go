package replicate

import (
	"context"
	"errors"
	"testing"
)

// oneObject is a store of which every object is the same.
type oneObject struct {
	store
	data []byte
}

func (s oneObject) get(context.Context, string) (object, error) {
	return object{data: s.data, version: "v"}, nil
}
func (s oneObject) url() string { return "fuzz" }

// FuzzLock reads any lock.json and epoch.json: a lock that is read can be used
// as it is, and everything else is refused.
func FuzzLock(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"lineage":"ab","epoch":3,"session":"s","ready":3,"node":"n","url":"http://a","seq":5,"txid":7,"schema":1,"beat":9,"nonce":"x","closed":true}`,
		`{"version":2,"lineage":"ab"}`, `{"lineage":"","epoch":1}`, `{"lineage":"a","epoch":1,"ready":2}`, `{"epoch":-1,"lineage":"a"}`,
		`{"epoch":1,"parent":0,"parent_txid":18446744073709551615,"ready_at_ms":1}`, `null`, `[]`, `{`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := oneObject{data: []byte(text)}
		lock, err := readLock(t.Context(), s)
		switch {
		case err == nil && (lock.Lineage == "" || lock.Epoch < 0 || lock.Ready < 0 || lock.Ready > lock.Epoch || lock.Version > lockVersion || lock.version != "v"):
			t.Errorf("%q was read as %+v", text, lock)
		case err != nil && !errors.Is(err, ErrNoLock) && !errors.Is(err, ErrNewer):
			t.Errorf("%q: got %v", text, err)
		}
		_, _ = readEpoch(t.Context(), s, 1) // any error is one, as long as it comes back
	})
}
