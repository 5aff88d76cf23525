package node

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holdfast/replicate"
)

// Defaults of a Config.
const (
	DefaultListen        = "127.0.0.1:7780"
	DefaultShutdownGrace = 10 * time.Second
	DefaultUploadGrace   = 20 * time.Second
)

// Config is what a node needs to run. Only Data is required.
type Config struct {
	Data   string // the data directory; made when it is missing
	Listen string // host:port; empty: DefaultListen; port 0: any free one. Beyond loopback a token is needed
	// Listener, unless nil, is the TCP socket to serve on in the place of
	// Listen. It was open before the node and may hold connections; the same
	// rules apply to its address.
	Listener net.Listener
	// MetricsListen is host:port of a second address that serves /metrics alone,
	// without a token; empty: none.
	MetricsListen string
	// Supervisor, unless nil, is told how the node gets on.
	Supervisor Supervisor

	Logger  *slog.Logger // nil: nothing is logged
	Version string       // of the program, for /version
	Commit  string       // the program was built from, for /version

	// Replication says where the copy of the database goes, and how. The zero
	// value is replicate.DefaultConfig: a folder of Data.
	Replication replicate.Config
	// Embedded lets the root of the replica begin by itself. A folder in Data
	// always does.
	Embedded  bool
	Node      string // the node's name; empty: FLY_APP_NAME, else the hostname
	Advertise string // the URL for others; empty: Replication's, else that of Listen

	// AdminToken is a secret with which a client may do everything, the first
	// token of a new node. Empty: there is none.
	AdminToken string
	// TLSCert and TLSKey are the files of a certificate, with its chain, and of
	// its key; the node reads them again when they change. Empty: no TLS.
	TLSCert, TLSKey string

	// SQLListen is where SQL clients read by libSQL's protocol, host:port.
	// Empty: nowhere. The rules of Listen apply.
	SQLListen string
	// SQLOrigins are the web pages that may do so from a browser, by origin,
	// such as "https://app.example".
	SQLOrigins []string

	// Alerts says when a person must know of something, and where to tell it.
	Alerts Alerts

	// MaxRound bounds how many operations share a commit; 0 leaves it to the
	// queue. For benchmarks.
	MaxRound int
	// NoReplica keeps no copy at all. For benchmarks.
	NoReplica bool
	// DiskWatermark is the free space, in bytes, under which new jobs are
	// refused. 0: the smaller of 256 MiB and 5 % of the disk; negative: none.
	DiskWatermark int64
	// ShutdownGrace is how long requests under way may take to finish once the
	// node stops; 0: DefaultShutdownGrace.
	ShutdownGrace time.Duration
	// UploadGrace is how long the upload of the last commits may take after
	// that; 0: DefaultUploadGrace.
	UploadGrace time.Duration
	// OnReady, unless nil, is called once, with the URL of the bound address,
	// when the node serves requests.
	OnReady func(url string)

	headerTimeout  time.Duration // 0: that of server.go
	requestTimeout time.Duration // likewise
	open           opener        // nil: queue.Open
	acquire        acquirer      // nil: replicate.Acquire
}

// ConfigError lists everything that is wrong with a Config.
type ConfigError struct {
	Problems []string
}

// Error returns the problems, separated by semicolons.
func (e *ConfigError) Error() string {
	return "configuration: " + strings.Join(e.Problems, "; ")
}

// Validate returns nil or a *ConfigError with all problems at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []string
	if c.Data == "" {
		problems = append(problems, "data: no directory is given")
	}
	if problem := checkListen(c.Listen); problem != "" {
		problems = append(problems, "listen: "+problem)
	}
	if c.SQLListen != "" {
		if problem := checkListen(c.SQLListen); problem != "" {
			problems = append(problems, "sql listen: "+problem)
		}
	}
	for _, origin := range c.SQLOrigins {
		if problem := checkOrigin(origin); problem != "" {
			problems = append(problems, "sql origin: "+problem)
		}
	}
	if c.MetricsListen != "" {
		if problem := checkListen(c.MetricsListen); problem != "" {
			problems = append(problems, "metrics listen: "+problem)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		problems = append(problems, "tls: a certificate and its key go together; give both files or none")
	}
	if strings.ContainsFunc(c.AdminToken, func(r rune) bool { return r <= ' ' || r > '~' }) || len(c.AdminToken) > maxSecret {
		problems = append(problems, fmt.Sprintf("admin token: it must be up to %d visible ASCII characters without spaces, to go into a header", maxSecret))
	}
	problems = append(problems, c.Alerts.problems()...)
	if c.MaxRound < 0 {
		problems = append(problems, fmt.Sprintf("max round: %d is negative", c.MaxRound))
	}
	if c.ShutdownGrace < 0 {
		problems = append(problems, fmt.Sprintf("shutdown grace: %s is negative", c.ShutdownGrace))
	}
	if c.UploadGrace < 0 {
		problems = append(problems, fmt.Sprintf("upload grace: %s is negative", c.UploadGrace))
	}
	if c.Data != "" {
		if _, err := c.Replication.ForDatabase(filepath.Join(c.Data, databaseName)); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if len(problems) > 0 {
		return &ConfigError{Problems: problems}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Listener != nil && c.Listener.Addr().Network() == "tcp" {
		c.Listen = c.Listener.Addr().String()
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ShutdownGrace == 0 {
		c.ShutdownGrace = DefaultShutdownGrace
	}
	if c.UploadGrace == 0 {
		c.UploadGrace = DefaultUploadGrace
	}
	if c.Replication.SyncInterval == 0 {
		c.Replication = replicate.DefaultConfig(c.Data)
	}
	if full, err := c.Replication.ForDatabase(filepath.Join(c.Data, databaseName)); err == nil && c.Data != "" {
		c.Replication = full
	}
	c.Embedded = c.Embedded || Embedded(c.Data, c.Replication.Replica)
	c.Node = cmp.Or(c.Node, DefaultNode())
	c.Advertise = cmp.Or(c.Advertise, c.Replication.Advertise)
	c.headerTimeout = cmp.Or(c.headerTimeout, headerTimeout)
	c.requestTimeout = cmp.Or(c.requestTimeout, requestTimeout)
	if c.open == nil {
		c.open = openQueue
	}
	if c.acquire == nil {
		c.acquire = acquire
	}
	return c
}

// DefaultNode names a node that was given no name. It must be the same when the
// node comes back on another disk.
func DefaultNode() string {
	if app := os.Getenv("FLY_APP_NAME"); app != "" {
		return app
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "holdfast"
}

// checkListen says what is wrong with an address to listen on, or "".
func checkListen(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Sprintf("%q is not host:port", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("%q has no port from 0 to 65535", addr)
	}
	if strings.ContainsAny(host, "/ ") {
		return fmt.Sprintf("%q is not host:port", addr)
	}
	return ""
}

// isLoopback reports whether host, without a port, names this machine for
// itself. A name other than localhost could resolve to anything.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
