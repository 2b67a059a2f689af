package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"

	"patchbay/am/api/xmlrpc"
)

var transportChecks = []check{
	{"transport.answers", "XML-RPC, Response format", nil, false, func(p *probe) error {
		a, err := p.am[p.first].client.Post(p.ctx, []byte("<?xml version='1.0'?>\n<methodCall><methodName>GetVersion</methodName><params/></methodCall>"))
		alert, _ := errors.AsType[*net.OpError](err)
		isRefusal := alert != nil && alert.Op == "remote error" || a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
		switch {
		case p.config.CertFile == "" && isRefusal:
			p.refusesStrangers = true
			return notTried("%s", withoutCertificate)
		case err != nil:
			return err
		case a.Status >= 300 && a.Status < 400:
			return errors.New("the call is redirected, and clients do not follow a redirected POST; use the URL of the aggregate itself")
		case a.Status != http.StatusOK:
			return fmt.Errorf("the answer has the HTTP status %d, not 200", a.Status)
		case !bytes.Contains(a.Body, []byte("<methodResponse")):
			return errors.New("the answer is no methodResponse")
		}
		return nil
	}},
	{"transport.content-type", "XML-RPC, Response format", []string{"transport.answers"}, false, func(p *probe) error {
		a, err := p.am[p.first].client.Post(p.ctx, []byte("<?xml version='1.0'?>\n<methodCall><methodName>GetVersion</methodName><params/></methodCall>"))
		if err != nil {
			return err
		}
		if kind, _, err := mime.ParseMediaType(a.ContentType); err != nil || kind != "text/xml" {
			return fmt.Errorf("the Content-Type is %q, not text/xml", a.ContentType)
		}
		return nil
	}},
	{"transport.bad-xml", "XML-RPC, Fault example", []string{"transport.answers"}, false, func(p *probe) error {
		a, err := p.am[p.first].client.Post(p.ctx, []byte("<methodCall><methodName>GetVersion"))
		if err != nil {
			return err
		}
		if !bytes.Contains(a.Body, []byte("<fault>")) && (a.Status < 400 || a.Status >= 500) {
			return fmt.Errorf("a call that is no XML is answered with the HTTP status %d and no fault", a.Status)
		}
		return nil
	}},
	{"transport.unknown-method", "XML-RPC, Fault example", []string{"transport.answers"}, false, func(p *probe) error {
		return p.faults("NoSuchMethodOfAnyVersion")
	}},
	{"transport.arguments", "XML-RPC, Fault example", []string{"transport.answers"}, false, func(p *probe) error {
		return p.faults("ListResources", 1, 2, 3, 4, 5, 6, 7)
	}},
}

// faults fails unless the call is answered with a fault, or with an envelope that refuses it.
func (p *probe) faults(method string, params ...xmlrpc.Value) error {
	a := p.am[p.first]
	v, err := a.client.CallRaw(p.ctx, method, params...)
	if _, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return nil
	}
	if err != nil && !strings.Contains(err.Error(), "HTTP status 4") {
		return err
	}
	if err == nil {
		r, err := p.types.envelope(a.version, method, v)
		if err != nil {
			return err
		}
		if r.code == 0 {
			return fmt.Errorf("%s with %d arguments succeeds", method, len(params))
		}
	}
	return nil
}
