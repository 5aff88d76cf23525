package replicate

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/s3"
)

// bucketURL reads s3://BUCKET/PATH?endpoint=…; what has a key of its own wins.
func (l *configLoader) bucketURL() {
	r, to, at := &l.local, &l.cfg.Replica, l.cfg.at["replica.url"]
	_, host, path, query, _, err := litestream.ParseReplicaURLWithQuery(r.url)
	if err != nil {
		return // reported by scheme
	}
	to.Path = path
	l.cfg.at["replica.bucket"], l.cfg.at["replica.path"] = at, at
	region, endpoint := "", ""
	if strings.HasPrefix(host, "arn:") {
		to.Bucket, region = host, litestream.RegionFromS3ARN(host)
	} else {
		var pathStyle bool
		to.Bucket, region, endpoint, pathStyle = s3.ParseHost(host)
		if endpoint != "" && (r.endpoint != "" || query.Has("endpoint")) && litestream.IsNeonEndpoint(endpoint) {
			to.Bucket, region, endpoint = host, "", ""
		}
		if endpoint != "" && to.ForcePathStyle == nil {
			to.ForcePathStyle = &pathStyle
		}
	}
	q := queryReader{l: l, at: at, query: query, known: map[string]bool{}}
	if v := q.text("endpoint"); v != "" {
		endpoint = v
	}
	if v := q.text("region"); v != "" {
		region = v
	}
	if to.Endpoint == "" && endpoint != "" {
		to.Endpoint, l.cfg.at["replica.endpoint"] = endpoint, at
	}
	if to.Region == "" && region != "" {
		to.Region, l.cfg.at["replica.region"] = region, at
	}
	q.flag(&to.ForcePathStyle, r.pathStyle, "forcePathStyle", "force-path-style")
	q.flag(&to.SignPayload, r.sign, "signPayload", "sign-payload")
	skip := &to.SkipVerify
	q.flag(&skip, nil, "skipVerify")
	to.SkipVerify = *skip
	partSize, concurrency := q.number("partSize", "part-size"), q.number("concurrency")
	if to.PartSize == 0 {
		to.PartSize = partSize
	}
	if to.Concurrency == 0 {
		to.Concurrency = int(concurrency)
	}
	q.rest()
}

// queryReader reads the parameters of a URL and knows which ones it was asked
// for.
type queryReader struct {
	l     *configLoader
	at    place
	query url.Values
	known map[string]bool
}

func (q queryReader) text(names ...string) string {
	value := ""
	for _, name := range names {
		q.known[name] = true
		if value == "" {
			value = q.query.Get(name)
		}
	}
	return value
}

// flag sets *to unless a key of the file did.
func (q queryReader) flag(to **bool, key *bool, names ...string) {
	value := q.text(names...)
	if value == "" {
		return
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		q.l.problem(q.at, "the parameter "+names[0]+" is neither true nor false")
	} else if key == nil {
		*to = &b
	}
}

func (q queryReader) number(names ...string) int64 {
	value := q.text(names...)
	if value == "" {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n <= 0 {
		q.l.problem(q.at, "the parameter "+names[0]+" is no positive whole number")
	}
	return n
}

// rest reports the parameters that nothing asked for.
func (q queryReader) rest() {
	var known []string
	for name := range q.known {
		known = append(known, name)
	}
	slices.Sort(known)
	for name := range q.query {
		if !q.known[name] {
			q.l.problem(q.at, "the URL has a parameter that is not supported; supported are "+strings.Join(known, ", "))
			return
		}
	}
}
