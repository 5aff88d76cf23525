package replicate

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/benbjohnson/litestream"
	"go.yaml.in/yaml/v3"
)

// rawReplica are the settings of a replica as they were written, at the top
// level or in the replica.
type rawReplica struct {
	typ, url, path            string
	bucket, region, endpoint  string
	accessKey, secretKey      string
	accessVar, secretVar      string // the variables that hold them
	pathStyle, sign, insecure *bool
	partSize                  int64
	concurrency               int
	syncInterval              time.Duration
}

// shared are the fields that may stand at the top level too.
func (l *configLoader) shared(r *rawReplica, prefix string) map[string]field {
	prefix += "."
	return map[string]field{
		"sync-interval":     l.duration(&r.syncInterval, prefix+"sync-interval"),
		"access-key-id":     l.secret(&r.accessKey, &r.accessVar, prefix+"access-key-id"),
		"secret-access-key": l.secret(&r.secretKey, &r.secretVar, prefix+"secret-access-key"),
		"bucket":            l.text(&r.bucket, prefix+"bucket"),
		"region":            l.text(&r.region, prefix+"region"),
		"endpoint":          l.text(&r.endpoint, prefix+"endpoint"),
		"force-path-style":  l.boolean(&r.pathStyle, prefix+"force-path-style"),
		"sign-payload":      l.boolean(&r.sign, prefix+"sign-payload"),
		"skip-verify":       l.boolean(&r.insecure, prefix+"skip-verify"),
	}
}

func (l *configLoader) replicaFields() map[string]field {
	known := l.shared(&l.local, "replica")
	known["type"] = func(at place, n *yaml.Node) {
		l.text(&l.local.typ, "replica.type")(at, n)
		if text := wrongType(l.local.typ); text != "" {
			l.problem(at, text)
		}
	}
	known["url"] = l.text(&l.local.url, "replica.url")
	known["path"] = l.text(&l.local.path, "replica.path")
	known["part-size"] = l.size(&l.local.partSize, "replica.part-size")
	known["concurrency"] = l.integer(&l.local.concurrency, "replica.concurrency")
	return known
}

// wrongType says why a type of replica, or a URL's scheme, is not supported.
func wrongType(typ string) string {
	switch {
	case typ == "" || typ == TypeFile || typ == TypeS3:
		return ""
	case slices.Contains([]string{"gs", "abs", "sftp", "webdav", "webdavs", "nats", "oss"}, typ):
		return "the type " + typ + " is not supported; Holdfast supports file and s3 (most stores offer the S3 API too)"
	}
	return "unknown type of replica; Holdfast supports file and s3"
}

// replica puts the settings together, by the rules of the stock program.
func (l *configLoader) replica() {
	if !l.dbs {
		l.idle()
	} else {
		l.inherit()
	}
	if l.has("global.sync-interval") {
		l.cfg.SyncInterval, l.cfg.at["sync-interval"] = l.global.syncInterval, l.cfg.at["global.sync-interval"]
	}
	if l.has("replica.sync-interval") {
		l.cfg.SyncInterval, l.cfg.at["sync-interval"] = l.local.syncInterval, l.cfg.at["replica.sync-interval"]
	}
	if !l.dbs {
		return
	}
	r := &l.local
	l.cfg.Replica = Replica{
		Type: r.typ, AccessKeyID: r.accessKey, SecretAccessKey: r.secretKey, accessKeyVar: r.accessVar, secretKeyVar: r.secretVar,
		ForcePathStyle: r.pathStyle, SkipVerify: r.insecure != nil && *r.insecure, SignPayload: r.sign,
		PartSize: r.partSize, Concurrency: r.concurrency,
	}
	typ := r.typ
	if r.url != "" {
		typ = l.scheme()
	}
	switch {
	case len(l.problems) > 0:
	case typ == TypeS3:
		l.bucket()
	default:
		l.folder()
	}
}

func (l *configLoader) has(name string) bool { _, ok := l.cfg.at[name]; return ok }

// idle reports settings that nothing uses: without a database the replica is a
// folder, and whoever names a bucket does not expect that.
func (l *configLoader) idle() {
	for _, name := range []string{"bucket", "endpoint", "region", "access-key-id", "secret-access-key"} {
		if at, ok := l.cfg.at["global."+name]; ok {
			l.problem(at, "has no effect, because the file has no dbs: with a replica of type s3")
		}
	}
}

// inherit gives the replica what the top level says and it does not.
func (l *configLoader) inherit() {
	r, g := &l.local, &l.global
	take := func(name string, to *string, from string) {
		if *to == "" && from != "" {
			*to, l.cfg.at["replica."+name] = from, l.cfg.at["global."+name]
		}
	}
	if r.accessKey == "" {
		r.accessVar = g.accessVar
	}
	if r.secretKey == "" {
		r.secretVar = g.secretVar
	}
	take("access-key-id", &r.accessKey, g.accessKey)
	take("secret-access-key", &r.secretKey, g.secretKey)
	take("bucket", &r.bucket, g.bucket)
	take("region", &r.region, g.region)
	take("endpoint", &r.endpoint, g.endpoint)
	flag := func(name string, to **bool, from *bool) {
		if *to == nil && from != nil {
			*to, l.cfg.at["replica."+name] = from, l.cfg.at["global."+name]
		}
	}
	flag("force-path-style", &r.pathStyle, g.pathStyle)
	flag("sign-payload", &r.sign, g.sign)
	if g.insecure != nil && *g.insecure {
		r.insecure = nil // it cannot be taken back below
	}
	flag("skip-verify", &r.insecure, g.insecure)
}

// scheme returns the type of the replica by its URL.
func (l *configLoader) scheme() string {
	at := l.cfg.at["replica.url"]
	if !litestream.IsURL(l.local.url) {
		l.problem(at, "is no URL; write s3://BUCKET/PATH or file:///PATH")
		return ""
	}
	scheme, _, _, _, user, err := litestream.ParseReplicaURLWithQuery(l.local.url)
	switch {
	case err != nil: // its text would quote the URL
		l.problem(at, "is not a valid URL; write s3://BUCKET/PATH or file:///PATH")
	case wrongType(scheme) != "":
		l.problem(at, wrongType(scheme))
	case user != nil:
		l.problem(at, "holds a user or a password, which would not be used; write access-key-id: and secret-access-key:")
	case l.local.typ != "" && l.local.typ != scheme:
		l.problem(l.cfg.at["replica.type"], "differs from the url, which decides; remove it")
	case l.local.path != "":
		l.problem(l.cfg.at["replica.path"], "stands beside url; write one of them")
	case scheme == TypeS3 && l.local.bucket != "":
		l.problem(l.cfg.at["replica.bucket"], "stands beside url, which names the bucket; write one of them")
	}
	return scheme
}

// folder completes a replica of type file.
func (l *configLoader) folder() {
	r, at := &l.local, l.cfg.at["replica.path"]
	path := r.path
	if r.url != "" {
		at = l.cfg.at["replica.url"]
		_, _, path, _ = litestream.ParseReplicaURL(r.url)
		if u, err := url.Parse(r.url); err != nil || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || u.EscapedPath() != u.Path {
			l.problem(at, "cannot be read as a path; write file:/// with three slashes and a plain path, or use path: instead")
			return
		}
	}
	for _, name := range []string{"bucket", "region", "endpoint", "force-path-style", "sign-payload", "part-size", "concurrency"} {
		if at, ok := l.cfg.at["replica."+name]; ok && strings.HasPrefix(at.key, "dbs") {
			l.problem(at, "is a setting of s3, and the type of this replica is file; write type: s3, or remove it")
		}
	}
	switch abs, err := absolutePath(path); {
	case path == "":
		l.problem(place{l.at.key + ".path", l.at.line}, "is missing: the folder of the replica")
	case litestream.IsURL(path):
		l.problem(at, "is a URL; write it as url:")
	case err != nil:
		l.problem(at, err.Error())
	default:
		l.cfg.Replica.Type, l.cfg.Replica.Path = TypeFile, abs
		l.cfg.at["replica.path"] = at
	}
}

// bucket completes a replica of type s3.
func (l *configLoader) bucket() {
	r, to := &l.local, &l.cfg.Replica
	if litestream.IsURL(r.path) {
		l.problem(l.cfg.at["replica.path"], "is a URL; write it as url:")
		return
	}
	to.Type, to.Bucket, to.Path, to.Region, to.Endpoint = TypeS3, r.bucket, r.path, r.region, r.endpoint
	if r.url != "" {
		l.bucketURL()
	}
	if to.Path = strings.Trim(to.Path, "/"); to.Path == "." {
		to.Path = "" // what the stock program makes of a URL without a path
	}
	to.Endpoint, _ = litestream.EnsureEndpointScheme(to.Endpoint)
	if to.Bucket == "" && len(l.problems) == 0 {
		l.problem(place{l.at.key + ".bucket", l.at.line}, "is missing: the bucket of the replica")
	}
}
