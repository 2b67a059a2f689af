package client

import (
	"encoding/base64"
	"fmt"
	"math"

	kolo "github.com/kolo/xmlrpc"

	"patchbay/am/xmlrpc"
)

// maxDepth is how deep parameters may nest.
const maxDepth = 32

// sendable gives v the types that kolo/xmlrpc encodes, and refuses what it
// would encode as something else: nil, numbers out of range, names given twice.
func sendable(v xmlrpc.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("parameters nest deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case string, bool:
		return v, nil
	case int:
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, fmt.Errorf("%d is beyond the 32 bits of an XML-RPC int", v)
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a number for XML-RPC", v)
		}
		return v, nil
	case []byte:
		return kolo.Base64(base64.StdEncoding.EncodeToString(v)), nil
	case []xmlrpc.Value:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = sendable(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case xmlrpc.Struct:
		out := make(map[string]any, len(v))
		for _, m := range v {
			// kolo writes the names of members as they are.
			name := string(xmlrpc.AppendText(nil, m.Name))
			if _, twice := out[name]; twice {
				return nil, fmt.Errorf("member %q is there twice", m.Name)
			}
			var err error
			if out[name], err = sendable(m.Value, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("a %T cannot be sent", v)
}
