package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/replicate"
)

// The S3 server that is started where no bucket is given.
const (
	storeModule  = "github.com/versity/versitygw/cmd/versitygw"
	storeVersion = "v1.8.0"
	storeBucket  = "bench"
)

// findStore returns the program of an S3 server, or an error that says how to
// get one.
func findStore() (string, error) {
	if named := os.Getenv("HOLDFAST_VERSITYGW"); named != "" {
		return named, nil
	}
	if found, err := exec.LookPath("versitygw"); err == nil {
		return found, nil
	}
	if cache, err := os.UserCacheDir(); err == nil {
		exe := filepath.Join(cache, "holdfast-tests", "versitygw-"+storeVersion, "versitygw")
		if runtime.GOOS == "windows" {
			exe += ".exe"
		}
		if _, err := os.Stat(exe); err == nil {
			return exe, nil
		}
	}
	return "", fmt.Errorf("the suite needs object storage: name a bucket by --config, or install a local server by `go install %s@%s`, on PATH or named by HOLDFAST_VERSITYGW", storeModule, storeVersion)
}

func needsStore(e *env) error {
	if e.config != "" {
		return nil
	}
	_, err := findStore()
	return err
}

// store is a bucket for a suite: that of a litestream.yml, or one of a server
// that lives as long as the suite.
type store struct {
	replica replicate.Replica
	ours    bool // we run the server
	roots   int
	sync    time.Duration // of the nodes; 0: the default

	cancel context.CancelFunc
	group  errgroup.Group
}

// openStore prepares the bucket that e names, or starts a server.
func openStore(ctx context.Context, e *env) (*store, error) {
	if e.config != "" {
		cfg, err := replicate.LoadConfig(e.config)
		if err != nil {
			return nil, err
		}
		if cfg.Replica.Type != replicate.TypeS3 {
			return nil, fmt.Errorf("%s: the suite needs a replica of type s3", e.config)
		}
		cfg.Replica.Path = path.Join(cfg.Replica.Path, fmt.Sprintf("holdfast-bench-%d", time.Now().UnixMilli()))
		e.logf("what is uploaded stays below %s in bucket %s", cfg.Replica.Path, cfg.Replica.Bucket)
		return &store{replica: cfg.Replica, cancel: func() {}}, nil
	}
	exe, err := findStore()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.dir, "s3-")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, storeBucket), 0o755); err != nil {
		return nil, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	s := &store{ours: true}
	s.replica = replicate.Replica{
		Type: replicate.TypeS3, Bucket: storeBucket, Path: "bench", Region: "us-east-1", Endpoint: "http://" + addr,
		AccessKeyID: "bench", SecretAccessKey: "benchsecret",
	}
	ctx, s.cancel = context.WithCancel(ctx)
	log := &tail{}
	cmd := exec.CommandContext(ctx, exe, "--access", s.replica.AccessKeyID, "--secret", s.replica.SecretAccessKey,
		"--region", s.replica.Region, "--port", addr, "--quiet", "posix", dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = withoutPrefixes(childEnv(), "VGW_", "ROOT_", "AWS_")
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		s.cancel()
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	exited := make(chan struct{})
	s.group.Go(func() error {
		defer close(exited)
		return cmd.Wait()
	})
	if err := s.wait(ctx, exited); err != nil {
		s.close()
		return nil, fmt.Errorf("start %s: %w\n%s", exe, err, log)
	}
	return s, nil
}

// wait returns when the server answers; that it is a refusal does not matter.
func (s *store) wait(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.replica.Endpoint, http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			return resp.Body.Close()
		}
		select {
		case <-exited:
			return errors.New("the process ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// close ends the server, if it is ours, and what stands before it.
func (s *store) close() {
	s.cancel()
	_ = s.group.Wait() // that it was killed
}

// slow returns a store whose answers take latency longer, by a proxy that lives
// as long as s. Another's bucket has a latency of its own.
func (s *store) slow(ctx context.Context, latency time.Duration) (*store, error) {
	if !s.ours {
		return s, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	backend := strings.TrimPrefix(s.replica.Endpoint, "http://")
	forward := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", backend
			pr.Out.Host = pr.In.Host // it is signed
		},
		Transport:    &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{
		ReadHeaderTimeout: bootTime,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(latency):
				forward.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		}),
	}
	proxied := &store{replica: s.replica, ours: true, cancel: func() { _ = server.Close() }} // its listener fails
	proxied.replica.Endpoint = "http://" + listener.Addr().String()
	proxied.replica.Path += "-slow"
	proxied.group.Go(func() error { return server.Serve(listener) })
	return proxied, nil
}

// start runs a node on a new root.
func (s *store) start(ctx context.Context, e *env, args ...string) (*server, error) {
	dir, err := os.MkdirTemp(e.dir, "node-")
	if err != nil {
		return nil, err
	}
	s.roots++
	r := s.replica
	text := fmt.Sprintf("dbs:\n  - path: %s\n    replica:\n      type: s3\n      bucket: %s\n      path: %s/%d\n",
		filepath.Join(dir, "holdfast.db"), r.Bucket, r.Path, s.roots)
	for _, setting := range [][2]string{{"endpoint", r.Endpoint}, {"region", r.Region}} {
		if setting[1] != "" {
			text += fmt.Sprintf("      %s: %q\n", setting[0], setting[1])
		}
	}
	if s.sync > 0 {
		text += fmt.Sprintf("      sync-interval: %s\n", s.sync)
	}
	if r.ForcePathStyle != nil {
		text += fmt.Sprintf("      force-path-style: %v\n", *r.ForcePathStyle)
	}
	if r.SkipVerify {
		text += "      skip-verify: true\n"
	}
	config := dir + ".yml"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	extra := []string{"HOLDFAST_CONFIG=" + config, "HOLDFAST_DATA=" + dir}
	if r.AccessKeyID != "" {
		extra = append(extra, "AWS_ACCESS_KEY_ID="+r.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+r.SecretAccessKey)
	}
	init := exec.CommandContext(ctx, e.exe, "init")
	init.Env = append(childEnv(), extra...)
	init.SysProcAttr = dieWithParent()
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", init, err, out)
	}
	n, err := startServerIn(ctx, e, dir, extra, args...)
	if err != nil {
		return nil, err
	}
	n.env = extra
	return n, nil
}
