package testbed

import (
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
)

// maxAnswer bounds the output, in bytes; the rest is for the envelope.
const maxAnswer = local.MaxAnswer - 1024

// get returns the attributes of the nodes that the request names, or of all nodes if it has no names. A
// name without a node is reported as absent. It fails if the answer exceeds maxAnswer.
func (t *Testbed) get(input json.RawMessage) (object, error) {
	var q struct {
		Names []string `json:"names"`
	}
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("cannot decode the input of get: %w", err)
	}
	if len(q.Names) > maxNames {
		return nil, fmt.Errorf("the input of get has %d names, at most %d are allowed", len(q.Names), maxNames)
	}
	var nodes []*nodeController
	if len(q.Names) == 0 {
		nodes = t.sortedNodes()
	}
	for _, name := range q.Names {
		nodes = append(nodes, t.node(name)) // nil if there is no such node
	}
	t.refreshCounters(nodes)
	resources := []provider.Resource{}
	size := 0
	for i, nc := range nodes {
		r := provider.Resource{provider.AttrEnsure: provider.Absent}
		if nc != nil {
			r = nc.resource()
		} else {
			r[provider.AttrName] = q.Names[i]
		}
		if size += encodedLength(r); size > maxAnswer {
			return nil, fmt.Errorf("the answer exceeds %d bytes with the first %d of %d nodes; request fewer at once", maxAnswer, i+1, len(nodes))
		}
		resources = append(resources, r)
	}
	// The attribute "services" may use the rest of the answer. Its texts are encoded twice,
	// which at most doubles their length.
	room := min(steprunner.MaxReport, (maxAnswer-size)/2/max(1, len(nodes)))
	for i, r := range resources {
		if nc := nodes[i]; nc != nil && nc.hasSteps() && r.Text(provider.AttrEnsure) == provider.Present {
			r[provider.AttrServices] = nc.steps.Journal().Items(room)
		}
	}
	return object{"resources": resources}, nil
}

// encodedLength returns about how many bytes r has in JSON.
func encodedLength(r provider.Resource) (n int) {
	text := func(s string) {
		n += len(s) + len(`"",`)
		for i := range len(s) {
			switch c := s[i]; {
			case c == '"', c == '\\':
				n++
			case c < ' ', c == '<', c == '>', c == '&':
				n += len(`\u0000`) - 1
			}
		}
	}
	for name, v := range r {
		text(name)
		switch v := v.(type) {
		case string:
			text(v)
		case []string:
			for _, s := range v {
				text(s)
			}
		}
		n += len(`[]`)
	}
	return n
}

// resource returns the node's attributes for get, without "services".
func (nc *nodeController) resource() provider.Resource {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.removed {
		return provider.Resource{provider.AttrName: nc.id, provider.AttrEnsure: provider.Absent}
	}
	r := nc.rec.Desired.attributes()
	r[provider.AttrName] = nc.id
	r[provider.AttrState] = nc.state
	if text := nc.statusMessage(); text != "" {
		r[provider.AttrMessage] = text
	}
	r[provider.AttrInterfaces] = nc.interfaceItems()
	if nc.t.egress != nil && nc.rec.EgressNumber != 0 {
		r[provider.AttrOutside] = nc.t.egress.SourceAddresses(nc.rec.EgressNumber)
	}
	r[provider.AttrHostKeys] = strings.Split(nc.rec.HostKey, "\n")
	if nc.loginsOpen {
		login, proxy := nc.t.published(endpointName(nc.rec.Desired.Hostname, nc.id), nc.rec.Port)
		r[provider.AttrLogin] = login
		if proxy != "" {
			r[provider.AttrProxy] = proxy
		}
	}
	return r
}
