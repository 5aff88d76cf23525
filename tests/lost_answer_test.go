package tests_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
)

// deafProxy is a TCP proxy before a node. It swallows the first answers, and
// breaks their connections: what was asked is done, and the client cannot know.
type deafProxy struct {
	url string

	mu       sync.Mutex
	swallow  int // answers to come
	swallown int
}

// before starts a proxy before a node, until the test ends.
func before(t *testing.T, n *node) *deafProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &deafProxy{url: "http://" + listener.Addr().String()}
	var g errgroup.Group
	g.Go(func() error {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return nil // closed
			}
			g.Go(func() error {
				defer conn.Close()
				p.carry(conn, strings.TrimPrefix(n.url, "http://"))
				return nil
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// carry carries one connection.
func (p *deafProxy) carry(conn net.Conn, to string) {
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	var g errgroup.Group
	g.Go(func() error {
		_, err := io.Copy(up, conn)
		return errors.Join(err, up.(*net.TCPConn).CloseWrite())
	})
	g.Go(func() error {
		defer conn.Close() // which ends the other half
		buf := make([]byte, 64<<10)
		for {
			n, err := up.Read(buf)
			if n > 0 && p.swallows() {
				return nil
			}
			if n > 0 {
				if _, err := conn.Write(buf[:n]); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
		}
	})
	_ = g.Wait() // whoever hung up first
}

func (p *deafProxy) swallows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.swallow == 0 {
		return false
	}
	p.swallow--
	p.swallown++
	return true
}

// next makes the proxy swallow n answers, and tells how many it has swallowed.
func (p *deafProxy) next(n int) (before int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = n
	return p.swallown
}

// TestLostAnswers loses the answers to enqueues, which are sent again.
func TestLostAnswers(t *testing.T) {
	n := serve(t, t.TempDir())
	p := before(t, n)
	c, err := client.New(p.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	byHand := &http.Client{Transport: &http.Transport{}}
	defer byHand.CloseIdleConnections()

	for _, tt := range []struct {
		name, queue string
		jobs        int
		enqueue     func(t *testing.T) error
	}{
		{"the client sends it again, and there is one job", "one", 1, func(*testing.T) error {
			jobs, err := c.Enqueue(ctx, client.Spec{Queue: "one"})
			if err == nil && (len(jobs) != 1 || jobs[0].Duplicate) {
				err = fmt.Errorf("got %+v", jobs)
			}
			return err
		}},
		{"an array too, and each job is there once", "many", 3, func(*testing.T) error {
			_, err := c.Enqueue(ctx, client.Spec{Queue: "many"}, client.Spec{Queue: "many"}, client.Spec{Queue: "many", DelayMS: 60_000})
			return err
		}},
		{"the command line too", "line", 1, func(t *testing.T) error {
			code, stdout, stderr := n.cli("enqueue", "line", "--url", p.url)
			if code != 0 {
				return fmt.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			return nil
		}},
		{"by hand it takes the same Idempotency-Key", "hand", 1, func(t *testing.T) error {
			for range 5 {
				r, err := http.NewRequestWithContext(ctx, "POST", p.url+"/v1/jobs", strings.NewReader(`{"queue":"hand"}`))
				if err != nil {
					return err
				}
				r.Header.Set("Idempotency-Key", "by-hand")
				resp, err := byHand.Do(r)
				if err != nil {
					continue
				}
				if resp.StatusCode != http.StatusOK {
					t.Errorf("got %s, want 200: it was there already", resp.Status)
				}
				return resp.Body.Close()
			}
			return errors.New("no answer")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := p.next(2)
			if err := tt.enqueue(t); err != nil {
				t.Fatal(err)
			}
			if after := p.next(0); after != before+2 {
				t.Errorf("%d answers were swallowed, want 2", after-before)
			}
			jobs, err := c.Jobs(ctx, client.Filter{Queue: tt.queue})
			if err != nil || len(jobs.Jobs) != tt.jobs {
				t.Errorf("got %d jobs, %v, want %d", len(jobs.Jobs), err, tt.jobs)
			}
		})
	}
}
