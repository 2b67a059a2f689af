package experimenter

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/display"
)

// addWindow adds the options for --start and --end. A duration in --end counts from the start.
func (r *callRequest) addWindow(options xmlrpc.Struct) (xmlrpc.Struct, error) {
	from := r.now
	for _, f := range []struct{ flag, text, name string }{{"--start", r.start, "geni_start_time"}, {"--end", r.end, "geni_end_time"}} {
		if f.text == "" {
			continue
		}
		if sh, ok := shapes[r.api][r.method]; ok && !slices.Contains(strings.Fields(sh.options), f.name) {
			return nil, fmt.Errorf("%s has no %s", r.method, f.flag)
		}
		if _, twice := options.Get(f.name); twice {
			return nil, fmt.Errorf("%s and --option %s set the same; give one", f.flag, f.name)
		}
		t, err := display.ParseTime(f.text, r.now, from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.flag, err)
		}
		from = t
		options = append(options, xmlrpc.Member{Name: f.name, Value: client.Time(t)})
	}
	return options, nil
}

func (r *callRequest) optionStruct() (xmlrpc.Struct, error) {
	options := xmlrpc.Struct{}
	for _, o := range r.options {
		name, text, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--option %q is not NAME=VALUE", o)
		}
		v, err := jsonOrText(text)
		if err != nil {
			return nil, fmt.Errorf("--option %s: %w", name, err)
		}
		if _, twice := options.Get(name); twice {
			return nil, fmt.Errorf("--option %s is given twice", name)
		}
		options = append(options, xmlrpc.Member{Name: name, Value: v})
	}
	options, err := r.addWindow(options)
	if err != nil {
		return nil, err
	}
	if r.me.SpeakingFor != "" {
		options = withDefault(options, "geni_speaking_for", r.me.SpeakingFor)
	}
	return options, nil
}

// withDefault leaves out a member that the struct already has, and an empty list.
func withDefault(s xmlrpc.Struct, name string, v xmlrpc.Value) xmlrpc.Struct {
	if list, ok := v.([]xmlrpc.Value); ok && len(list) == 0 {
		return s
	}
	if _, given := s.Get(name); given {
		return s
	}
	return append(s, xmlrpc.Member{Name: name, Value: v})
}

// jsonOrText converts true, false, whole numbers, and JSON arrays, objects and quoted
// strings. Everything else is text.
func jsonOrText(s string) (xmlrpc.Value, error) {
	if s == "true" || s == "false" {
		return s == "true", nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	if s == "" || !strings.ContainsRune(`[{"`, rune(s[0])) {
		return s, nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%q looks like JSON, but: %w", s, err)
	}
	return fromJSON(v)
}

// fromJSON fails for null, which XML-RPC lacks.
func fromJSON(v any) (xmlrpc.Value, error) {
	switch v := v.(type) {
	case json.Number:
		n, err := strconv.Atoi(v.String())
		if err != nil {
			f, err := v.Float64()
			return f, err
		}
		return n, nil
	case []any:
		out := make([]xmlrpc.Value, len(v))
		for i := range v {
			var err error
			if out[i], err = fromJSON(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := xmlrpc.Struct{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			x, err := fromJSON(v[name])
			if err != nil {
				return nil, err
			}
			out = append(out, xmlrpc.Member{Name: name, Value: x})
		}
		return out, nil
	case nil:
		return nil, errors.New("XML-RPC has no null")
	}
	return v, nil
}
