package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/client"
)

func TestWorkerPrefetches(t *testing.T) {
	jobs := func() *source { return newSource(job("1", ""), job("2", ""), job("3", "")) }
	slow := sleeper(25*time.Second, nil)
	tests := []struct {
		name    string
		opts    client.WorkerOptions
		prepare func(*source)
		stop    time.Duration // when
		calls   map[string][]string
	}{
		{
			"a job is held for the next free handler",
			client.WorkerOptions{Default: sleeper(time.Second, nil), Prefetch: 1},
			nil, 5 * time.Second,
			map[string][]string{
				"claim": {
					"claim max 2 wait 20000 acks 0 fails 0", // two at once
					"claim max 1 wait 0 acks 1 fails 0",     // the third, while the second runs
					"claim max 1 wait 0 acks 1 fails 0",
					"claim max 1 wait 20000 acks 0 fails 0",
				},
				"ack": {`ack L1 "slept"`, `ack L2 "slept"`, `ack L3 "slept"`},
			},
		},
		{
			"held jobs are given back by a stop, the one that runs may finish",
			client.WorkerOptions{Default: slow, Prefetch: 2},
			nil, time.Second,
			map[string][]string{"release": {"release L2", "release L3"}, "ack": {`ack L1 "slept"`}},
		},
		{
			"a held job whose lease was lost is dropped",
			client.WorkerOptions{Default: slow, Prefetch: 2},
			func(s *source) { s.lost["L2"] = true }, 30 * time.Second,
			map[string][]string{"release": {}, "ack": {`ack L1 "slept"`, `ack L3 "slept"`}},
		},
		{
			"a held job that was cancelled is given back, and does not run",
			client.WorkerOptions{Default: slow, Prefetch: 2},
			func(s *source) { s.cancel["L2"] = true }, 30 * time.Second,
			map[string][]string{"release": {"release L2"}, "ack": {`ack L1 "slept"`, `ack L3 "slept"`}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := jobs()
				if tt.prepare != nil {
					tt.prepare(s)
				}
				w := startWorker(t, s, tt.opts)
				time.Sleep(tt.stop)
				synctest.Wait()
				if released := w.end(); released > 30*time.Second {
					t.Errorf("the stop took %s", released)
				}
				for verb, want := range tt.calls {
					equal(t, verb, texts(s.said(verb)), want)
				}
				for _, c := range s.said("release") {
					if c.at > tt.stop {
						t.Errorf("%s came %s after the stop", c.what, c.at-tt.stop)
					}
				}
			})
		})
	}
}
