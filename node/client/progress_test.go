package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/client"
)

// steps reports progress n times, every so often.
func steps(n int, every time.Duration) client.Handler {
	return func(_ context.Context, job client.Claimed) (any, error) {
		for i := range n {
			time.Sleep(every)
			if err := job.Progress(map[string]int{"step": i + 1}); err != nil {
				return nil, err
			}
		}
		time.Sleep(every)
		return nil, nil
	}
}

func TestProgress(t *testing.T) {
	t.Run("goes out soon", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: steps(2, 3*time.Second)})
			time.Sleep(20 * time.Second)
			equal(t, "extends", texts(s.said("extend")), []string{`extend L1 30000{"step":1}`, `extend L1 30000{"step":2}`})
			if got, want := times(s.said("extend")), []time.Duration{3 * time.Second, 6 * time.Second}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			w.end()
		})
	})
	t.Run("goes out about once a second, the latest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: steps(100, 50*time.Millisecond)})
			time.Sleep(20 * time.Second)
			if got := s.said("extend"); len(got) < 4 || len(got) > 7 || !strings.Contains(got[len(got)-1].what, "100") && !strings.Contains(got[len(got)-1].what, `"step":9`) && !strings.Contains(got[len(got)-1].what, `"step":8`) {
				t.Errorf("got %q", texts(got))
			}
			w.end()
		})
	})
	t.Run("is kept when the node does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: steps(1, 5*time.Second)})
			time.Sleep(4 * time.Second)
			s.set(func(s *source) { s.down = errDown })
			time.Sleep(1500 * time.Millisecond)
			s.set(func(s *source) { s.down = nil })
			time.Sleep(10 * time.Second)
			equal(t, "extends", texts(s.said("extend L1")), []string{`extend L1 30000{"step":1}`})
			w.end()
		})
	})
	t.Run("is refused to the handler when the node would refuse it", func(t *testing.T) {
		deep := json.RawMessage(strings.Repeat("[", 513) + strings.Repeat("]", 513))
		for _, v := range []any{make(chan int), strings.Repeat("x", 64<<10), deep} {
			if err := (client.Claimed{}).Progress(v); err == nil {
				t.Errorf("%.20s: got nil", fmt.Sprint(v))
			}
		}
		if err := (client.Claimed{}).Progress(strings.Repeat("[", 2000)); err != nil {
			t.Errorf("brackets in a string: %v", err)
		}
	})
}
