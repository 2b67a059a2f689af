package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// versions are the API versions by path, without the trailing slash. Clients call /RPC2 if their
// URL has no path.
var versions = map[string]int{
	"": 3, "/RPC2": 3,
	"/am/3.0": 3, "/xmlrpc/am/3.0": 3,
	"/am/2.0": 2, "/xmlrpc/am/2.0": 2,
}

// versionOf returns 0 if the API is not at this path.
func versionOf(path string) int { return versions[strings.TrimSuffix(path, "/")] }

// Limits of calls of the authority. Its calls are short, and signatures are their main cost.
const (
	maxAuthorityBody  = 1 << 20 // bytes
	maxAuthorityCalls = 16
)

type refusal struct {
	status int
	text   string
}

// target is what a request calls: a version of the API, or a service of the authority.
type target struct {
	version int
	service string
	maxBody int64
}

// route returns what a request calls, and the HTTP error of a request that is not a call.
func (s *Server) route(r *http.Request) (t target, refused *refusal) {
	t = target{version: versionOf(r.URL.Path), maxBody: s.config.MaxBody}
	p, _ := r.Context().Value(peerKey{}).(*peer)
	if s.opt.Authority != nil && (!s.opt.AuthorityInProcess || p != nil && p.chain != nil) {
		if t.service = s.opt.Authority.Name(r.URL.Path); t.service != "" {
			t.maxBody = min(t.maxBody, maxAuthorityBody)
		}
	}
	e := r.Header.Get("Content-Encoding")
	switch {
	case t.version == 0 && t.service == "":
		refused = &refusal{http.StatusNotFound, "There is nothing at this URL. " + s.urls()}
	case r.Method != http.MethodPost:
		refused = &refusal{http.StatusMethodNotAllowed,
			"This is a GENI aggregate manager: it is called by XML-RPC, with POST, by clients like jFed, omni or patchbay call. " + s.urls()}
	case e != "" && !strings.EqualFold(e, "identity"):
		refused = &refusal{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding %q is not supported: send the call without it.", e)}
	case r.ContentLength > t.maxBody:
		refused = s.bodyTooLarge(t)
	}
	return t, refused
}

func (s *Server) urls() string {
	text := fmt.Sprintf("Version 3 of the API is at %[1]s/am/3.0 and version 2 at %[1]s/am/2.0.", s.opt.PublicURL)
	if s.opt.Authority != nil && !s.opt.AuthorityInProcess {
		text += fmt.Sprintf(" The authority is at %[1]s/ch/2, %[1]s/sa/2 and %[1]s/ma/2.", s.opt.PublicURL)
	}
	return text
}

func (s *Server) bodyTooLarge(t target) *refusal {
	what := "this server (max_body)"
	if t.service != "" {
		what = "calls of the authority"
	}
	return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("The call is larger than %d bytes, the limit of %s.", t.maxBody, what)}
}

func (f refusal) write(w http.ResponseWriter) {
	h := w.Header()
	switch f.status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "5")
	}
	http.Error(w, f.text, f.status)
}

// acceptsGzip reports whether Accept-Encoding allows gzip (RFC 9110, 12.5.3): the weight of gzip
// is above 0. If gzip is not named, the weight of * counts.
func acceptsGzip(values []string) bool {
	named, star := -1.0, -1.0
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			coding, params, _ := strings.Cut(item, ";")
			q := weight(params)
			switch strings.ToLower(strings.TrimSpace(coding)) {
			case "gzip", "x-gzip":
				named = max(named, q)
			case "*":
				star = max(star, q)
			}
		}
	}
	if named >= 0 {
		return named > 0
	}
	return star > 0
}

// weight returns the parameter q: 1 without q, 0 for an invalid q.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return 0
			}
			return q
		}
	}
	return 1
}
