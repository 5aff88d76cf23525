package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// conn is one raw keep-alive connection. It writes requests that were rendered
// beforehand and reads only as much of an answer as HTTP/1.1 framing needs.
// It belongs to one goroutine.
type conn struct {
	net.Conn
	r    *bufio.Reader
	body []byte // of the last answer; reused
	stop func() bool
}

// dialConn connects to addr. The end of ctx closes the connection, which is how it
// reaches a load that waits for an answer.
func dialConn(ctx context.Context, addr string) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{
		Conn: c, r: bufio.NewReaderSize(c, 64<<10),
		stop: context.AfterFunc(ctx, func() { _ = c.Close() }),
	}, nil
}

// close closes the connection and lets go of its context.
func (c *conn) close() {
	c.stop()
	_ = c.Conn.Close() // nothing of it is needed any more
}

// do sends a rendered request and returns the body of the answer, which stays
// valid until the next call. A status other than 200 and 201 is an error.
func (c *conn) do(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	status, length, err := c.readHead()
	if err != nil {
		return nil, err
	}
	c.body = c.body[:0]
	if length < 0 {
		err = c.readChunks()
	} else {
		err = c.readBody(length)
	}
	if err != nil {
		return nil, err
	}
	if status != 200 && status != 201 {
		return nil, fmt.Errorf("status %d: %s", status, bytes.TrimSpace(c.body))
	}
	return c.body, nil
}

// readHead reads the status line and the headers. The length is -1 for a
// chunked body.
func (c *conn) readHead() (status, length int, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("not HTTP/1.1: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, err
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return status, length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, 0, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			length = -1
		}
	}
}

// readBody appends n bytes to the body.
func (c *conn) readBody(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, at+n), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}

func (c *conn) readChunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.readBody(int(n)); err != nil {
			return err
		}
		if _, err := c.r.Discard(2); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// renderPost returns a whole POST request.
func renderPost(path string, body []byte) []byte {
	return appendPost(nil, path, body)
}

// appendPost appends a whole POST request to b.
func appendPost(b []byte, path string, body []byte) []byte {
	b = append(b, "POST "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}

// appendLeases appends the lease tokens in the answer to a claim. It relies on
// what the API promises and no more: a token is a string without escapes under
// the key "lease", and the benchmark's payloads hold no quotes.
func appendLeases(leases [][]byte, answer []byte) ([][]byte, error) {
	key := []byte(`"lease":"`)
	for {
		i := bytes.Index(answer, key)
		if i < 0 {
			return leases, nil
		}
		answer = answer[i+len(key):]
		end := bytes.IndexByte(answer, '"')
		if end < 0 {
			return nil, errors.New("a lease without an end")
		}
		leases = append(leases, answer[:end])
		answer = answer[end:]
	}
}
