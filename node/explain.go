package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// explain returns the first place where body, which must be valid JSON, does
// not fit t, a wire type; nil when it fits. encoding/json names neither the
// place of an unknown field nor the index of an array's item.
func explain(body []byte, t reflect.Type, root string) error {
	e := &explainer{body: body, dec: json.NewDecoder(bytes.NewReader(body))}
	e.dec.UseNumber()
	return e.value(root, t)
}

type explainer struct {
	body []byte
	dec  *json.Decoder
}

// value checks the next value against t. Values that are null fit everything,
// as encoding/json has it.
func (e *explainer) value(path string, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	start := e.next()
	if t == reflect.TypeFor[json.RawMessage]() {
		var skipped json.RawMessage
		return e.dec.Decode(&skipped)
	}
	token, err := e.dec.Token()
	if err != nil || token == nil {
		return err
	}
	fits := false
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if token == json.Delim('{') {
			return e.object(path, t)
		}
	case reflect.Slice:
		if token == json.Delim('[') {
			return e.array(path, t)
		}
	case reflect.Int, reflect.Int64:
		if number, ok := token.(json.Number); ok {
			_, err := strconv.ParseInt(number.String(), 10, 64)
			fits = err == nil
		}
	case reflect.String:
		_, fits = token.(string)
	case reflect.Bool:
		_, fits = token.(bool)
	}
	if fits {
		return nil
	}
	if path == "" {
		path = "the body"
	}
	return invalid("%s: got %s, want %s at %s", path, describe(token), want(t), place(e.body, start))
}

func (e *explainer) object(path string, t reflect.Type) error {
	for e.dec.More() {
		start := e.next()
		token, err := e.dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		name := key
		if path != "" {
			name = path + "." + key
		}
		member := memberType(t, key)
		if member == nil {
			return invalid("%.200s: unknown field at %s; there are %s", name, place(e.body, start), members(t))
		}
		if err := e.value(name, member); err != nil {
			return err
		}
	}
	_, err := e.dec.Token()
	return err
}

func (e *explainer) array(path string, t reflect.Type) error {
	for i := 0; e.dec.More(); i++ {
		if err := e.value(fmt.Sprintf("%s[%d]", path, i), t.Elem()); err != nil {
			return err
		}
	}
	_, err := e.dec.Token()
	return err
}

// next returns the offset of the next token: the decoder stands behind the
// last one.
func (e *explainer) next() int {
	offset := int(e.dec.InputOffset())
	for offset < len(e.body) && strings.IndexByte(" \t\r\n,:", e.body[offset]) >= 0 {
		offset++
	}
	return offset
}

// memberType returns the type of what key names in a map or a struct, or nil.
func memberType(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if strings.EqualFold(name, key) {
			return field.Type
		}
	}
	return nil
}

// members lists the names of a struct's members, as JSON has them.
func members(t reflect.Type) string {
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func describe(token json.Token) string {
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return "an object"
		}
		return "an array"
	case json.Number:
		return fmt.Sprintf("the number %.40s", token)
	case bool:
		return strconv.FormatBool(token)
	}
	return "a string"
}

func want(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.Int, reflect.Int64:
		return "an integer of 64 bits"
	case reflect.Bool:
		return "true or false"
	}
	return "a string"
}
