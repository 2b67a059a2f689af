package modeltest

import (
	"regexp"
	"slices"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// do makes a call and compares the answer with the answer that the model expects.
func (l *run) do(c *caller, a ask) {
	now, after := l.now(), l.model.clone()
	codes := after.judge(a, now, l.room)
	full := l.full.Load()
	l.touched = a.slice
	got := l.send(c, a)
	l.logf("%s → %d %s", a, got.code, got.output)
	if len(codes) > 0 && len(l.room.over) > 0 && (bool(got.unanswered) || got.code == am.Success) {
		after = l.model.clone()
		codes = after.judge(a, now, l.room.ended())
	}
	switch {
	case bool(got.unanswered):
		if len(codes) == 0 {
			l.ifDone = after
		}
	case got.code == am.DBError && l.full.Load() > full:
	case len(codes) == 0 && got.code == am.Success:
		l.learn(after, a, got)
		l.model = after
	case slices.Contains(codes, got.code):
	default:
		l.fail("%s: %d %s (%v), want %v", a, got.code, got.output, got.cause, codes)
	}
}

// send encodes a call for its version of the API.
func (l *run) send(c *caller, a ask) answer {
	var o []xmlrpc.Member
	if a.effort {
		o = append(o, opt("geni_best_effort", true))
	}
	if a.alap {
		o = append(o, opt("geni_extend_alap", true))
	}
	if !a.wish.IsZero() {
		o = append(o, opt("geni_end_time", stamp(a.wish)))
	}
	switch a.method {
	case "Allocate":
		if a.change {
			o = append(o, opt("patchbay_change", true))
		}
		return c.allocate(a.rspec(), o...)
	case "CreateSliver":
		return c.create(a.rspec(), users(c), o...)
	case "Renew":
		return c.v3("Renew", a.named, stamp(a.time), opts(o...))
	case "RenewSliver":
		return c.v2("RenewSliver", stamp(a.time), xmlrpc.Struct(o))
	case "PerformOperationalAction":
		return c.v3("PerformOperationalAction", a.named, a.action, opts(append(o, opt("geni_users", users(c)))...))
	case "Provision":
		return c.v3("Provision", a.named, opts(append(o, opt("geni_users", users(c)))...))
	case "Shutdown":
		if a.version == 3 {
			return c.call(3, "Shutdown", c.slice, creds(c.credential), opts())
		}
		return c.v2("Shutdown", opts())
	case "SliverStatus", "DeleteSliver":
		return c.v2(a.method, xmlrpc.Struct{})
	}
	return c.v3(a.method, a.named, opts(o...))
}

// rspec returns the request RSpec of the call.
func (a ask) rspec() string {
	var all []string
	for _, n := range a.nodes {
		text := node(n.client, n.kind)
		if n.where != "" {
			text = bound(n.client, n.kind, n.where)
		}
		if n.linked {
			text = withInterface(text, n.client) + link(n.client)
		}
		all = append(all, text)
	}
	return request(all...)
}

// key is a public SSH key.
const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f test"

// users returns the option geni_users with the caller and a key.
func users(c *caller) []xmlrpc.Value {
	return []xmlrpc.Value{xmlrpc.Struct{opt("urn", c.who.urn.String()), opt("keys", strs(key))}}
}

// learn reads the slivers and components of new nodes from an answer, and stores them in the
// model after.
func (l *run) learn(after *plain, a ask, got answer) {
	if a.nodes == nil {
		return
	}
	s := after.slices[a.slice]
	where := map[string]map[string]string{}
	for _, m := range manifestNode.FindAllStringSubmatch(got.manifest(), -1) {
		is := map[string]string{}
		for _, x := range attribute.FindAllStringSubmatch(m[1], -1) {
			is[x[1]] = x[2]
		}
		where[is["client_id"]] = is
	}
	for i := range a.nodes {
		n := s.node(a.nodes[i].client)
		is := where[n.client]
		if n.urn != "" && n.urn != is["sliver_id"] {
			l.fail("%s was replaced: %v", n.client, is)
		}
		n.urn = is["sliver_id"]
		n.component = regexp.MustCompile(`[^+]*$`).FindString(is["component_id"])
		if n.urn == "" || n.component == "" || a.nodes[i].where != "" && a.nodes[i].where != n.component {
			l.fail("%s got %v", n.client, is)
		}
	}
}
