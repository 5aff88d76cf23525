package tests_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

// knownVariables are the variables that a command of the binary reads, as its
// help says. The second result is false when there is no such command.
func knownVariables(t *testing.T, command string) (map[string]bool, bool) {
	t.Helper()
	cmd := exec.Command(binary(t), command, "--help")
	cmd.Env = cleanEnv()
	code, help, _ := run(t, cmd)
	if code != 0 {
		return nil, false
	}
	known := map[string]bool{}
	for _, name := range regexp.MustCompile(`HOLDFAST_[A-Z_]+`).FindAllString(help, -1) {
		known[name] = true
	}
	return known, true
}

// foreignVariables are those that libraries and the configuration read.
var foreignVariables = []string{"BUCKET_NAME", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}

// checkVariables checks that all variables are read by the command.
func checkVariables(t *testing.T, command string, variables map[string]string) {
	t.Helper()
	known, ok := knownVariables(t, command)
	if !ok {
		t.Skipf("this binary has no command %s", command)
	}
	if !known["HOLDFAST_DATA"] {
		t.Fatalf("the help of %s was not understood", command)
	}
	for name := range variables {
		if !known[name] && !slices.Contains(foreignVariables, name) {
			t.Errorf("nobody reads the variable %s", name)
		}
	}
}

// seconds reads a duration as Fly.io and Compose write it.
func seconds(t *testing.T, text string) int {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Errorf("%q is no duration: %v", text, err)
	}
	return int(d / time.Second)
}

// flyConfig is what we use of fly.toml; anything else in one is a mistake.
// https://fly.io/docs/reference/configuration/
type flyConfig struct {
	App           string `toml:"app"`
	PrimaryRegion string `toml:"primary_region"`
	KillSignal    string `toml:"kill_signal"`
	KillTimeout   string `toml:"kill_timeout"`
	Build         struct {
		Dockerfile string `toml:"dockerfile"`
	} `toml:"build"`
	Processes map[string]string `toml:"processes"`
	Env       map[string]string `toml:"env"`
	Mounts    struct {
		Source      string `toml:"source"`
		Destination string `toml:"destination"`
	} `toml:"mounts"`
	Deploy struct {
		Strategy       string `toml:"strategy"`
		MaxUnavailable int    `toml:"max_unavailable"`
		WaitTimeout    string `toml:"wait_timeout"`
	} `toml:"deploy"`
	HTTPService struct {
		flyService
		ForceHTTPS  bool `toml:"force_https"`
		HTTPOptions struct {
			IdleTimeout int `toml:"idle_timeout"`
		} `toml:"http_options"`
		Checks []flyCheck `toml:"checks"`
	} `toml:"http_service"`
	Services []struct {
		flyService
		Protocol string `toml:"protocol"`
		Ports    []struct {
			Port     int      `toml:"port"`
			Handlers []string `toml:"handlers"`
		} `toml:"ports"`
	} `toml:"services"`
	Metrics struct {
		Port int    `toml:"port"`
		Path string `toml:"path"`
	} `toml:"metrics"`
	VM []struct {
		Size   string `toml:"size"`
		Memory string `toml:"memory"`
	} `toml:"vm"`
}

type flyService struct {
	InternalPort       int      `toml:"internal_port"`
	Processes          []string `toml:"processes"`
	AutoStopMachines   string   `toml:"auto_stop_machines"`
	AutoStartMachines  bool     `toml:"auto_start_machines"`
	MinMachinesRunning int      `toml:"min_machines_running"`
	Concurrency        struct {
		Type      string `toml:"type"`
		SoftLimit int    `toml:"soft_limit"`
		HardLimit int    `toml:"hard_limit"`
	} `toml:"concurrency"`
}

type flyCheck struct {
	Method      string `toml:"method"`
	Path        string `toml:"path"`
	GracePeriod string `toml:"grace_period"`
	Interval    string `toml:"interval"`
	Timeout     string `toml:"timeout"`
}

// longPoll is the longest that an answer may be held back, in seconds.
const longPoll = 60

func TestFlyConfig(t *testing.T) {
	for _, tt := range []struct {
		file    string
		command string
	}{
		{"fly.toml", "serve"},
		{"deploy/fly.edge.toml", "edge"},
	} {
		t.Run(tt.file+" is one that Fly.io and the binary understand", func(t *testing.T) {
			var cfg flyConfig
			meta, err := toml.DecodeFile(filepath.Join(root, tt.file), &cfg)
			if err != nil {
				t.Fatal(err)
			}
			if unknown := meta.Undecoded(); len(unknown) > 0 {
				t.Errorf("unknown keys: %v", unknown)
			}
			checkFly(t, &cfg)
			dockerfile := filepath.Join(root, filepath.Dir(tt.file), cfg.Build.Dockerfile) // as flyctl has it
			if _, err := os.Stat(dockerfile); err != nil {
				t.Error(err)
			}
			if command, edge := cfg.Processes["app"]; edge && command != tt.command || !edge && tt.command != "serve" {
				t.Errorf("it runs %q, want %s", command, tt.command)
			}
			if tt.command == "serve" {
				checkFlyPrimary(t, &cfg)
			}
			checkVariables(t, tt.command, cfg.Env)
		})
	}
}

// checkFly checks what holds for every app.
func checkFly(t *testing.T, cfg *flyConfig) {
	t.Helper()
	if cfg.KillSignal != "SIGTERM" {
		t.Errorf("kill_signal: got %s, want SIGTERM", cfg.KillSignal)
	}
	// Ten seconds for requests under way, twenty for the last upload.
	if got := seconds(t, cfg.KillTimeout); got < 40 || got > 300 {
		t.Errorf("kill_timeout: %d s", got)
	}
	for name := range cfg.Env {
		if strings.HasPrefix(name, "FLY_") || name == "PRIMARY_REGION" {
			t.Errorf("%s is Fly.io's to set", name)
		}
	}
	service := cfg.HTTPService
	if port := portOf(t, cfg.Env["HOLDFAST_LISTEN"]); port != service.InternalPort {
		t.Errorf("the node listens on %d, requests go to %d", port, service.InternalPort)
	}
	if port := portOf(t, cfg.Env["HOLDFAST_METRICS_LISTEN"]); port != cfg.Metrics.Port {
		t.Errorf("metrics are on %d, scrapes go to %d", port, cfg.Metrics.Port)
	}
	for _, s := range cfg.Services {
		if port := portOf(t, cfg.Env["HOLDFAST_SQL_LISTEN"]); port != s.InternalPort {
			t.Errorf("a service goes to %d, where nobody listens", s.InternalPort)
		}
	}
	if service.HTTPOptions.IdleTimeout <= longPoll {
		t.Errorf("idle_timeout %d cuts claims off that wait", service.HTTPOptions.IdleTimeout)
	}
	if c := service.Concurrency; c.Type != "requests" || c.SoftLimit >= c.HardLimit || c.SoftLimit < 1000 {
		t.Errorf("concurrency %+v leaves no room for claims that wait", c)
	}
	paths := []string{cfg.Metrics.Path}
	for _, check := range service.Checks {
		paths = append(paths, check.Path)
		if check.Path != "/healthz" || seconds(t, check.GracePeriod) > 60 || seconds(t, check.Timeout) >= seconds(t, check.Interval) {
			t.Errorf("check %+v", check)
		}
	}
	if len(service.Checks) == 0 {
		t.Error("nobody looks whether it lives")
	}
	checkPaths(t, paths)
}

// checkFlyPrimary checks what holds for the app that keeps the jobs.
func checkFlyPrimary(t *testing.T, cfg *flyConfig) {
	t.Helper()
	if s := cfg.HTTPService; s.AutoStopMachines != "off" || s.MinMachinesRunning < 1 {
		t.Errorf("a queue must run while nobody asks: %+v", s.flyService)
	}
	if cfg.Deploy.Strategy != "rolling" || cfg.Deploy.MaxUnavailable != 1 {
		t.Errorf("a volume wants one after the other: %+v", cfg.Deploy)
	}
	if cfg.PrimaryRegion == "" {
		t.Error("without primary_region a Machine in any region may become the primary")
	}
	if want := imageVariables(t)["HOLDFAST_DATA"]; cfg.Mounts.Destination != want {
		t.Errorf("the volume is at %s, the data at %s", cfg.Mounts.Destination, want)
	}
}

// checkPaths checks that a node serves paths.
func checkPaths(t *testing.T, paths []string) {
	t.Helper()
	n := serve(t, t.TempDir())
	for _, path := range paths {
		if code := n.status(path); code == http.StatusNotFound || code >= 500 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// status gets a path of the node.
func (n *node) status(path string) int {
	n.t.Helper()
	resp, err := http.Get(n.url + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	port := 0
	if _, scan := fmt.Sscanf(text, "%d", &port); err != nil || scan != nil {
		t.Errorf("%q is not host:port", addr)
	}
	return port
}

// imageVariables are those that the Dockerfile sets.
func imageVariables(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(string(text), -1) {
		for pair := range strings.FieldsSeq(line[1]) {
			name, value, _ := strings.Cut(pair, "=")
			set[name] = value
		}
	}
	return set
}

func TestImageVariables(t *testing.T) {
	variables := imageVariables(t)
	delete(variables, "PATH")
	if len(variables) == 0 {
		t.Fatal("the Dockerfile sets none")
	}
	checkVariables(t, "serve", variables)
}

// composeFile is what we use of Compose; anything else in it is a mistake.
// https://docs.docker.com/reference/compose-file/
type composeFile struct {
	Name        string                    `yaml:"name"`
	Node        yaml.Node                 `yaml:"x-node"`
	Environment yaml.Node                 `yaml:"x-environment"`
	Services    map[string]composeService `yaml:"services"`
	Volumes     map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Image           string            `yaml:"image"`
	Command         []string          `yaml:"command"`
	Restart         string            `yaml:"restart"`
	DependsOn       []string          `yaml:"depends_on"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Volumes         []string          `yaml:"volumes"`
	Ports           []string          `yaml:"ports"`
	Environment     map[string]string `yaml:"environment"`
}

func TestCompose(t *testing.T) {
	f, err := os.Open(filepath.Join(root, "deploy", "compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	var file composeFile
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]int{}
	for name, s := range file.Services {
		for _, on := range s.DependsOn {
			if _, ok := file.Services[on]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, on)
			}
		}
		if s.Image != "holdfast" {
			continue
		}
		nodes[s.Command[0]]++
		t.Run("service "+name+" is one that the binary understands", func(t *testing.T) { checkCompose(t, s, file) })
	}
	if nodes["serve"] != 2 || nodes["edge"] != 1 {
		t.Errorf("services %v are no two nodes to try failover with, and an edge", nodes)
	}
}

func checkCompose(t *testing.T, s composeService, file composeFile) {
	if _, err := os.Stat(filepath.Join(root, "deploy", s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	if seconds(t, s.StopGracePeriod) < 40 {
		t.Errorf("stop_grace_period %s is too short for the last upload", s.StopGracePeriod)
	}
	_, inside, _ := strings.Cut(strings.TrimPrefix(s.Ports[0], "127.0.0.1:"), ":")
	if !strings.HasPrefix(s.Ports[0], "127.0.0.1:") || !strings.HasSuffix(s.Environment["HOLDFAST_LISTEN"], ":"+inside) {
		t.Errorf("ports %v, listens on %s", s.Ports, s.Environment["HOLDFAST_LISTEN"])
	}
	// The settings are read with the variables that the service has.
	settings, _, _ := strings.Cut(s.Volumes[0], ":")
	cmd := exec.Command(binary(t), "config", "show", "--config", filepath.Join(root, "deploy", settings))
	cmd.Env = cleanEnv("HOLDFAST_DATA=" + imageVariables(t)["HOLDFAST_DATA"])
	for name, value := range s.Environment {
		if name != "HOLDFAST_CONFIG" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	code, out, stderr := run(t, cmd)
	if code != 0 {
		t.Fatalf("config show: %s", stderr)
	}
	for _, want := range []string{`holdfast\.failover +auto`, `replica\.endpoint +http://s3:9000`, `holdfast\.advertise +http://` + s.Environment["HOLDFAST_NODE"] + `:7780`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	s3 := strings.Join(file.Services["s3"].Command, " ")
	for _, want := range []string{"--access " + s.Environment["AWS_ACCESS_KEY_ID"], "--secret " + s.Environment["AWS_SECRET_ACCESS_KEY"]} {
		if !strings.Contains(s3, want) {
			t.Errorf("the S3 server has no %q: %s", want, s3)
		}
	}
	if volume := "s3:/buckets/" + s.Environment["BUCKET_NAME"]; !slices.Contains(file.Services["s3"].Volumes, volume) {
		t.Errorf("the S3 server has no bucket %s", s.Environment["BUCKET_NAME"])
	}
	checkVariables(t, s.Command[0], s.Environment)
}

func TestPackagedSettings(t *testing.T) {
	for _, name := range []string{"litestream.yml", "compose.litestream.yml"} {
		t.Run(name+" is read with the variables that it names", func(t *testing.T) {
			cmd := exec.Command(binary(t), "config", "show", "--config", filepath.Join(root, "deploy", name))
			cmd.Env = cleanEnv("HOLDFAST_DATA=/data", "BUCKET_NAME=b", "AWS_ENDPOINT_URL_S3=https://s3.example.com", "HOLDFAST_NODE=n")
			if code, _, stderr := run(t, cmd); code != 0 {
				t.Error(stderr)
			}
		})
	}
	t.Run("holdfast.env sets what the node reads", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(root, "deploy", "holdfast.env"))
		if err != nil {
			t.Fatal(err)
		}
		variables := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^#?([A-Z][A-Z0-9_]*)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
			variables[m[1]] = m[2]
		}
		if len(variables) < 5 {
			t.Fatalf("got %v", variables)
		}
		checkVariables(t, "serve", variables)
	})
}
