package xmlrpc

import "errors"

// Limits bound what a decoder accepts. A zero field means its default.
type Limits struct {
	// Depth is how deep arrays and structs may nest, the parameter itself
	// being 1; by default 32.
	Depth int
	// Values is how many values a document may hold, by default 200,000.
	Values int
}

const (
	defaultDepth  = 32
	defaultValues = 200_000
)

func (l Limits) orDefault() Limits {
	if l.Depth <= 0 {
		l.Depth = defaultDepth
	}
	if l.Values <= 0 {
		l.Values = defaultValues
	}
	return l
}

// DecodeCall reads a methodCall. The error is always a *Fault, fit to be sent
// back: its text names the line and the element.
func DecodeCall(b []byte, lim Limits) (Call, error) {
	r, err := newReader(b, lim)
	var c Call
	if err == nil {
		c, err = r.call()
	}
	if err == nil {
		return c, nil
	}
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		return Call{}, &Fault{e.Code, e.Error()}
	}
	return Call{}, &Fault{FaultParse, err.Error()}
}

// DecodeResponse reads a methodResponse. The error is the peer's *Fault when
// that is the answer, and a *SyntaxError when the answer cannot be read.
func DecodeResponse(b []byte, lim Limits) (Value, error) {
	r, err := newReader(b, lim)
	if err != nil {
		return nil, err
	}
	return r.response()
}

func (r *reader) call() (Call, error) {
	c := Call{Params: []Value{}}
	if err := r.root("methodCall"); err != nil {
		return c, err
	}
	if err := r.open("methodName", "methodCall"); err != nil {
		return c, err
	}
	name, err := r.text("methodName")
	if err != nil {
		return c, err
	}
	if c.Method = trim(name); !ValidMethod(c.Method) {
		return c, r.invalid("methodName %s is not a name of letters, digits and _.:/", quote(c.Method))
	}
	switch more, err := r.opens("params", "methodCall"); {
	case err != nil:
		return c, err
	case more:
		if c.Params, err = r.params(); err != nil {
			return c, err
		}
		if err := r.close("methodCall"); err != nil {
			return c, err
		}
	}
	return c, r.end()
}

func (r *reader) response() (Value, error) {
	if err := r.root("methodResponse"); err != nil {
		return nil, err
	}
	name, err := r.next("methodResponse")
	if err != nil {
		return nil, err
	}
	var v Value
	switch name {
	case "params":
		ps, err := r.params()
		if err != nil {
			return nil, err
		}
		if len(ps) != 1 {
			return nil, r.invalid("an answer has one value, not %d", len(ps))
		}
		v = ps[0]
	case "fault":
		if err := r.open("value", "fault"); err != nil {
			return nil, err
		}
		if v, err = r.value(1); err != nil {
			return nil, err
		}
		if err := r.close("fault"); err != nil {
			return nil, err
		}
	default:
		return nil, r.invalid("<methodResponse> holds neither <params> nor <fault>")
	}
	if err := r.close("methodResponse"); err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if name == "fault" {
		return nil, r.fault(v)
	}
	return v, nil
}

// params reads up to and with </params>.
func (r *reader) params() ([]Value, error) {
	ps := []Value{}
	for {
		more, err := r.opens("param", "params")
		if err != nil || !more {
			return ps, err
		}
		if err := r.open("value", "param"); err != nil {
			return nil, err
		}
		r.path = append(r.path, step{kind: "parameter", n: len(ps) + 1})
		v, err := r.value(1)
		if err != nil {
			return nil, err
		}
		r.path = r.path[:0]
		ps = append(ps, v)
		if err := r.close("param"); err != nil {
			return nil, err
		}
	}
}

// fault turns the value of a <fault> into the error that it means.
func (r *reader) fault(v Value) error {
	s, _ := v.(Struct)
	code, _ := s.Get("faultCode")
	text, _ := s.Get("faultString")
	n, isInt := AsInt(code)
	t, isText := AsString(text)
	if !isInt || !isText {
		return r.invalid("<fault> does not hold a faultCode and a faultString")
	}
	return &Fault{n, t}
}
