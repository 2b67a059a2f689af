package xmlrpc

// Limits are the limits of a decoder. A zero field means its default.
type Limits struct {
	// Depth is the maximum depth of nested values; default 32. A parameter has depth 1.
	Depth int
	// Values is the maximum number of values in a document; default 200,000.
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

// DecodeCall reads a methodCall. The error is always a *Fault that can be sent to the client.
// The fault's text names the line and, inside of parameters, the value.
func DecodeCall(b []byte, lim Limits) (Call, error) {
	r := newReader(b, lim)
	c := r.call()
	if r.err != nil {
		return Call{}, &Fault{r.err.Code, r.err.Error()}
	}
	return c, nil
}

// DecodeResponse reads a methodResponse. The error is a *Fault if the server has answered with
// a fault, and a *SyntaxError if the answer cannot be read.
func DecodeResponse(b []byte, lim Limits) (Value, error) {
	r := newReader(b, lim)
	v, fault := r.response()
	switch {
	case r.err != nil:
		return nil, r.err
	case fault != nil:
		return nil, fault
	}
	return v, nil
}

func (r *reader) call() Call {
	r.root("methodCall")
	r.open("methodName", "methodCall")
	c := Call{Method: trim(r.text("methodName")), Params: []Value{}}
	if !ValidMethod(c.Method) {
		r.invalid("methodName %s is not a name of letters, digits and _.:/", quote(c.Method))
	}
	if r.opens("params", "methodCall") {
		c.Params = r.params()
		r.close("methodCall")
	}
	r.end()
	return c
}

func (r *reader) response() (v Value, fault *Fault) {
	r.root("methodResponse")
	name := r.next("methodResponse")
	switch name {
	case "params":
		if all := r.params(); len(all) == 1 {
			v = all[0]
		} else {
			r.invalid("an answer has one value, not %d", len(all))
		}
	case "fault":
		r.open("value", "fault")
		v = r.value(1)
		r.close("fault")
	default:
		r.invalid("<methodResponse> holds neither <params> nor <fault>")
	}
	r.close("methodResponse")
	r.end()
	if name == "fault" {
		fault = r.fault(v)
	}
	return v, fault
}

// params reads the parameters up to and including </params>.
func (r *reader) params() []Value {
	all := []Value{}
	for r.opens("param", "params") {
		r.open("value", "param")
		all = append(all, r.part(step{kind: "parameter", n: len(all) + 1}, 1))
		r.close("param")
	}
	return all
}

func (r *reader) fault(v Value) *Fault {
	s, _ := v.(Struct)
	code, _ := s.Get("faultCode")
	text, _ := s.Get("faultString")
	n, isInt := AsInt(code)
	t, isText := AsString(text)
	if !isInt || !isText {
		r.invalid("<fault> does not hold a faultCode and a faultString")
	}
	return &Fault{n, t}
}
