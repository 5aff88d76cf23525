package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"unicode/utf8"

	"holdfast/node/client"
)

// maxSizeHint bounds the memory that a Content-Length header alone obtains.
const maxSizeHint = 64 << 10

// withBody reads the body and hands it to use, which must not keep it.
func withBody(w http.ResponseWriter, r *http.Request, use func(body []byte) error) error {
	if r.ContentLength > maxBodyBytes {
		return tooLarge() // without reading any of it
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, maxSizeHint)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge()
	case err != nil:
		return invalid("the body ended early: %d bytes came", buf.Len())
	}
	return use(buf.Bytes())
}

func tooLarge() error {
	return &apiError{code: client.CodeTooLarge, message: fmt.Sprintf("the body is over the limit of %d bytes", maxBodyBytes)}
}

// decode reads the body into v, a pointer to a wire type.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	return withBody(w, r, func(body []byte) error { return unmarshal(body, v, "") })
}

// decodeOptional is decode, but leaves v as it is when there is no body.
func decodeOptional(w http.ResponseWriter, r *http.Request, v any) error {
	return withBody(w, r, func(body []byte) error {
		if len(bytes.TrimSpace(body)) == 0 {
			return nil
		}
		return unmarshal(body, v, "")
	})
}

// decodeNothing refuses a body that says something.
func decodeNothing(w http.ResponseWriter, r *http.Request) error {
	var none struct{}
	return decodeOptional(w, r, &none)
}

// decodeSpecs reads one spec, or an array of them.
func decodeSpecs(w http.ResponseWriter, r *http.Request) (specs []client.Spec, array bool, err error) {
	err = withBody(w, r, func(body []byte) error {
		if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
			array = true
			return unmarshal(body, &specs, "jobs")
		}
		specs = make([]client.Spec, 1)
		return unmarshal(body, &specs[0], "")
	})
	return specs, array, err
}

// unmarshal decodes a body that must be one JSON value and fit v; root is how
// errors call that value. What is wrong is found out only once something is,
// by reading the body again: most are fine.
func unmarshal(body []byte, v any, root string) error {
	if !utf8.Valid(body) {
		return invalid("the body is not UTF-8 at %s", place(body, invalidUTF8(body)))
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil && len(bytes.TrimSpace(body[dec.InputOffset():])) == 0 {
		return nil
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return invalid("the body is empty; JSON is expected")
	}
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(body, &whole), &syntax) {
		offset := int(syntax.Offset)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			offset-- // it counts the bytes read, and so the offending one
		}
		return invalid("the body is not JSON at %s: %s", place(body, offset), syntax)
	}
	if err := explain(body, reflect.TypeOf(v).Elem(), root); err != nil {
		return err
	}
	return invalid("the body does not have the expected form")
}

func invalidUTF8(body []byte) int {
	offset := 0
	for offset < len(body) {
		r, size := utf8.DecodeRune(body[offset:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		offset += size
	}
	return offset
}

// place names an offset, counted from 0, also by line and column when the
// body has lines.
func place(body []byte, offset int) string {
	before := body[:min(offset, len(body))]
	line := bytes.Count(before, []byte("\n"))
	if line == 0 {
		return fmt.Sprintf("byte %d", offset)
	}
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("byte %d (line %d, column %d)", offset, line+1, column+1)
}
