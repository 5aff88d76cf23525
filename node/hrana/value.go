package hrana

import (
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// value is one of SQLite's in a request.
type value struct{ v driver.Value }

// UnmarshalJSON implements [json.Unmarshaler].
func (v *value) UnmarshalJSON(text []byte) error {
	var wire struct {
		Type   string          `json:"type"`
		Value  json.RawMessage `json:"value"`
		Base64 string          `json:"base64"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return err
	}
	var err error
	switch wire.Type {
	case "null":
		v.v = nil
	case "integer":
		// A string, as a JSON number of JavaScript would lose digits; we take both.
		v.v, err = strconv.ParseInt(strings.Trim(string(wire.Value), `"`), 10, 64)
	case "float":
		var f float64
		err = json.Unmarshal(wire.Value, &f)
		v.v = f
	case "text":
		var s string
		err = json.Unmarshal(wire.Value, &s)
		v.v = s
	case "blob":
		var b []byte
		b, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(wire.Base64, "="))
		v.v = append([]byte{}, b...) // not nil, which would be NULL
	default:
		return fmt.Errorf("a value has the unknown type %q", clip(wire.Type))
	}
	if err != nil {
		return fmt.Errorf("a value of type %s cannot be read", wire.Type)
	}
	return nil
}

// appendValue appends a value of a row in JSON. Integers are strings, or
// libsql-client-go panics; base64 has no padding, or it reads NULL; what JSON
// cannot say is null.
func appendValue(out []byte, v driver.Value) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(out, `{"type":"null"}`...), nil
	case int64:
		out = append(out, `{"type":"integer","value":"`...)
		out = strconv.AppendInt(out, x, 10)
		return append(out, `"}`...), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return append(out, `{"type":"null"}`...), nil
		}
		out = append(out, `{"type":"float","value":`...)
		out = strconv.AppendFloat(out, x, 'g', -1, 64)
		return append(out, '}'), nil
	case []byte:
		out = append(out, `{"type":"blob","base64":"`...)
		out = base64.RawStdEncoding.AppendEncode(out, x)
		return append(out, `"}`...), nil
	case string:
		return appendText(out, x)
	case bool:
		if x {
			return append(out, `{"type":"integer","value":"1"}`...), nil
		}
		return append(out, `{"type":"integer","value":"0"}`...), nil
	case time.Time: // of a column that is declared as one; the schema has none
		return appendText(out, x.Format(time.RFC3339Nano))
	}
	return out, fmt.Errorf("a value of the type %T", v)
}

func appendText(out []byte, s string) ([]byte, error) {
	text, err := json.Marshal(s) // bytes that are not UTF-8 become U+FFFD
	if err != nil {
		return out, err
	}
	out = append(out, `{"type":"text","value":`...)
	out = append(out, text...)
	return append(out, '}'), nil
}
