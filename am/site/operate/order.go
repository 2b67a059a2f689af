package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

func malformed(format string, args ...any) error {
	return &RefusedError{Text: printable(fmt.Sprintf(format, args...)), malformed: true}
}

// ReadQuery parses the query of a request. It fails with a *RefusedError if the query
// is malformed or has a key twice.
func ReadQuery(r *http.Request) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, malformed("the query cannot be read: %.200s; write special characters as %%XX", err)
	}
	for key, values := range q {
		if len(values) > 1 {
			return nil, malformed("%.40q is in the query twice; give it once", key)
		}
	}
	return q, nil
}

// readKeys is ReadQuery for a query that may have only these keys.
func readKeys(r *http.Request, keys ...string) (url.Values, error) {
	q, err := ReadQuery(r)
	for key := range q {
		if !slices.Contains(keys, key) {
			err = malformed("there is no key %.40q%s", key, didYouMean(key, keys))
		}
	}
	return q, err
}

// NoQuery fails with a *RefusedError if a request has a query.
func NoQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	return malformed("%s takes no query, not %.40q", r.URL.Path, r.URL.RawQuery)
}

// ReadOrder decodes an order: one JSON object of at most limit bytes. It fails with a
// *RefusedError for unknown keys, repeated keys, text after the object, and a query.
func ReadOrder(w http.ResponseWriter, r *http.Request, limit int64, order any) error {
	text, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	if err := decode(text, order); err != nil {
		return malformed("the order cannot be read: %.300s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// readBody fails with a *RefusedError if the request has a query or a body that is too long.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if err := NoQuery(r); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, malformed("the order cannot be read: %.300s", err)
	}
	return text, nil
}

func decode(text []byte, order any) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(order); err != nil {
		return err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after it")
	}
	return checkKeys(text)
}

// checkKeys fails if an object in a well-formed text has a key twice, without regard to
// case. Package json would use the last of these keys.
func checkKeys(text []byte) error {
	type level struct {
		keys         map[string]bool // nil in an array
		expectsValue bool            // the value of a key comes next
	}
	var open []level
	in := json.NewDecoder(bytes.NewReader(text))
	for {
		t, err := in.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if d, ok := t.(json.Delim); ok && (d == '}' || d == ']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].keys != nil {
			object := &open[len(open)-1]
			if key, ok := t.(string); ok && !object.expectsValue {
				key = strings.ToLower(key)
				if object.keys[key] {
					return fmt.Errorf("it has the key %.40q twice", key)
				}
				object.keys[key], object.expectsValue = true, true
				continue
			}
			object.expectsValue = false
		}
		switch t {
		case json.Delim('{'):
			open = append(open, level{keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}

// Fail answers a query or an order with an error: status 400 for a malformed request, 422 for a
// refused one, 500 otherwise.
func Fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if e, ok := errors.AsType[*RefusedError](err); ok {
		status = http.StatusUnprocessableEntity
		if e.malformed {
			status = http.StatusBadRequest
		}
	}
	http.Error(w, err.Error(), status)
}
