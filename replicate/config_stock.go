package replicate

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// stockVersion is the version of Litestream whose files we write and read.
const stockVersion = "v0.5.18"

// Stock returns a litestream.yml with which the stock program restores dbPath
// from one prefix of the replica. It holds no secret: keys are references to
// the variables that a comment names.
func (c Config) Stock(dbPath, prefix string) []byte {
	if abs, err := filepath.Abs(dbPath); err == nil {
		dbPath = abs
	}
	w := &stockWriter{}
	w.line("dbs:")
	w.line("  - path: %s", w.quote(dbPath))
	w.line("    replica:")
	r := c.Replica
	if r.Type == TypeFile {
		w.line("      type: file")
		w.line("      path: %s", w.quote(filepath.Join(r.Path, filepath.FromSlash(prefix))))
	} else {
		w.bucket(r, strings.Trim(strings.Trim(r.Path, "/")+"/"+prefix, "/"))
	}

	var head bytes.Buffer
	fmt.Fprintf(&head, "# For Litestream %s, to restore from; written by Holdfast:\n", stockVersion)
	fmt.Fprintf(&head, "#   litestream restore -config THIS-FILE -o COPY %s\n", dbPath)
	head.WriteString("# Never run \"litestream replicate\" with it: it would damage the replica.\n")
	for _, line := range w.needs {
		head.WriteString("# " + line + "\n")
	}
	return append(head.Bytes(), w.body.Bytes()...)
}

// stockWriter writes the settings, and collects what must be set before they
// can be used.
type stockWriter struct {
	body  bytes.Buffer
	needs []string
}

func (w *stockWriter) line(format string, args ...any) { fmt.Fprintf(&w.body, format+"\n", args...) }

// quote writes a value in YAML. The stock program has no way to write a $ that
// is no reference, so it gets one to a variable that holds it.
func (w *stockWriter) quote(value string) string {
	if strings.Contains(value, "$") {
		if need := "Set DOLLAR to one dollar sign."; len(w.needs) == 0 || w.needs[0] != need {
			w.needs = append([]string{need}, w.needs...)
		}
		value = strings.ReplaceAll(value, "$", "${DOLLAR}")
	}
	return strconv.Quote(value)
}

func (w *stockWriter) bucket(r Replica, path string) {
	w.line("      type: s3")
	w.line("      bucket: %s", w.quote(r.Bucket))
	w.line("      path: %s", w.quote(path))
	if r.Region != "" {
		w.line("      region: %s", w.quote(r.Region))
	}
	if r.Endpoint != "" {
		w.line("      endpoint: %s", w.quote(r.Endpoint))
	}
	if r.ForcePathStyle != nil {
		w.line("      force-path-style: %t", *r.ForcePathStyle)
	}
	if r.SignPayload != nil {
		w.line("      sign-payload: %t", *r.SignPayload)
	}
	if r.SkipVerify {
		w.line("      skip-verify: true")
	}
	w.needs = append(w.needs, "Unset AWS_CA_BUNDLE if it is set: Litestream does not start with it.")
	if r.AccessKeyID == "" {
		w.needs = append(w.needs, "The keys are those of the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or of the machine's role.")
		return
	}
	id, secret := r.accessKeyVar, r.secretKeyVar
	if id == "" || secret == "" {
		id, secret = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
	}
	w.needs = append(w.needs, "Set "+id+" and "+secret+" to the keys of the bucket.")
	w.line("      access-key-id: '${%s}'", id)
	w.line("      secret-access-key: '${%s}'", secret)
}

// ReplicaURL names the replica for people, without secrets.
func (c Config) ReplicaURL() string {
	switch c.Replica.Type {
	case TypeFile:
		return "file://" + filepath.ToSlash(c.Replica.Path)
	case TypeS3:
		return newS3URL(c.Replica)
	}
	return ""
}
