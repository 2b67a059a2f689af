package client

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"strings"

	kolo "github.com/kolo/xmlrpc"

	"patchbay/am/api/xmlrpc"
)

// maxDepth is the depth of nested values that a call may have. Decoders of am/api/xmlrpc accept it.
const maxDepth = 32

// encodeCall returns a call as XML. It fails for an invalid method name, and for values that
// koloValue refuses.
func encodeCall(method string, params []xmlrpc.Value) ([]byte, error) {
	if !xmlrpc.ValidMethod(method) {
		return nil, fmt.Errorf("cannot encode a call: invalid method name %.80q", method)
	}
	args := make([]any, len(params)) // not nil, so that <params> is written
	for i, p := range params {
		var err error
		if args[i], err = koloValue(p, 1); err != nil {
			return nil, fmt.Errorf("cannot encode parameter %d of %s: %w", i+1, method, err)
		}
	}
	return kolo.EncodeMethodCall(method, args...)
}

// koloValue returns v in the types that kolo/xmlrpc encodes. It escapes the names of members,
// because kolo/xmlrpc does not. It refuses what kolo/xmlrpc writes in a form that others cannot
// read: nil, times, ints of more than 32 bits, and numbers that are infinite or NaN. It also
// refuses two members with one name, and deep nesting.
func koloValue(v xmlrpc.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case string, bool:
		return v, nil
	case int:
		if int(int32(v)) != v {
			return nil, fmt.Errorf("%d is beyond 32 bits", v)
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a number", v)
		}
		return v, nil
	case []byte:
		return kolo.Base64(base64.StdEncoding.EncodeToString(v)), nil
	case []xmlrpc.Value:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = koloValue(v[i], depth+1); err != nil {
				return nil, fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		return list, nil
	case xmlrpc.Struct:
		members := make(map[string]any, len(v))
		for _, m := range v {
			var name strings.Builder
			if err := xml.EscapeText(&name, []byte(m.Name)); err != nil {
				return nil, err
			}
			if _, twice := members[name.String()]; twice {
				return nil, fmt.Errorf("member %.80q is there twice", m.Name)
			}
			value, err := koloValue(m.Value, depth+1)
			if err != nil {
				return nil, fmt.Errorf("member %.80q: %w", m.Name, err)
			}
			members[name.String()] = value
		}
		return members, nil
	case nil:
		return nil, errors.New("there is no XML-RPC value nil")
	}
	return nil, fmt.Errorf("no XML-RPC value is made of %T", v)
}
