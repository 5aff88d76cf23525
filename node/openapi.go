package node

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.yaml.in/yaml/v3"
)

// The document is written in YAML, which people read and which has anchors for
// what is the same in many places.
//
//go:embed openapi.yaml
var openapiYAML []byte

// openapiDocument returns the document as JSON.
func openapiDocument() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openapiYAML, &doc); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	delete(doc, "x-shared") // where the anchors are
	return json.Marshal(doc)
}

// showOpenAPI is GET /openapi.json.
func (a *API) showOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	doc, err := a.document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", jsonContentType)
	if _, err := w.Write(doc); err != nil {
		return errors.Join(errHungUp, err)
	}
	return nil
}
