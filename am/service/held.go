package service

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// sliceContent holds the data of a slice that a further request must not conflict with. They come
// from the records of slivers and the heads of documents; no document is parsed.
type sliceContent struct {
	live            []am.Sliver // without kept
	addresses       []netip.Prefix
	bytes, elements int
	// names are the client_ids of the new request that slivers of the slice use already. joined are
	// the ends of the links that the request joins, and links the client_ids of all links.
	names  map[name]urn.URN
	joined map[string][]binder.LinkEnd
	links  map[string]bool
	// kept are the slivers that a change keeps, by client_id.
	kept map[string]*am.Sliver
}

// lastEnd returns until, or the end of a kept sliver if that is later: it holds what a change gives it until then.
func (h *sliceContent) lastEnd(until time.Time) time.Time {
	for _, x := range h.kept {
		until = am.LaterOf(until, am.HoldOf(x).Until)
	}
	return until
}

// name is a client_id, unique among the parts of its kind.
type name struct{ kind, clientID string }

// deleteHints name, in messages, the nodes that a user must Delete to free a client_id. The key
// is the kind of the part.
var deleteHints = map[string]string{"node": "that one", "interface": "its node", "link": "the nodes at its ends"}

type clientIDs struct {
	list []rspec.NamedPart
	has  map[name]bool
	// joins are the links that add ends to one of the slice.
	joins map[string]bool
}

func clientIDsOf(req *rspec.Request) (c clientIDs) {
	c.has, c.joins = map[name]bool{}, map[string]bool{}
	for x := range req.NamedParts() {
		c.list = append(c.list, x)
		c.has[name{x.Kind, x.ClientID}] = true
		if x.Join {
			c.joins[x.ClientID] = true
		}
	}
	return c
}

// readContent returns what the slice holds, with the client_ids of the request that it uses already. Released and
// expired slivers do not count. In a change, slivers with the client_id of a requested node are
// kept, and the links at them are joined by other slivers.
func (a *attempt) readContent(v *store.View) (*sliceContent, error) {
	c := a.clientIDs
	live, err := a.remaining(v)
	if err != nil {
		return nil, err
	}
	kept := map[string]*am.Sliver{}
	joins := c.joins
	if a.options.Change {
		joins = maps.Clone(joins)
		for i := range live {
			if x := live[i]; c.has[name{"node", x.ClientID}] {
				kept[x.ClientID] = &x
				for _, in := range x.Interfaces {
					joins[in.Link] = joins[in.Link] || in.Link != ""
				}
			}
		}
		live = slices.DeleteFunc(live, func(x am.Sliver) bool { return kept[x.ClientID] != nil })
	}
	rec, _, err := v.Slice(a.slice)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	h := &sliceContent{live: live, kept: kept, names: map[name]urn.URN{}, joined: map[string][]binder.LinkEnd{}, links: map[string]bool{}}
	countDocument := func(document string) error {
		head, err := v.DocumentHead(document)
		h.bytes += head.Bytes
		h.elements += head.Elements
		return err
	}
	for _, id := range rec.Definitions {
		if err := countDocument(id); err != nil {
			return nil, err
		}
	}
	for _, x := range kept {
		for _, in := range x.Interfaces {
			h.addresses = append(h.addresses, in.Addresses...)
		}
	}
	documents := map[string]bool{}
	for i := range live {
		x := &live[i]
		noteUse := func(kind, clientID string) {
			if n := (name{kind, clientID}); c.has[n] {
				h.names[n] = x.URN
			}
		}
		noteUse("node", x.ClientID)
		for _, in := range x.Interfaces {
			noteUse("interface", in.ClientID)
			if in.Link != "" {
				h.links[in.Link] = true
			}
			if joins[in.Link] {
				h.joined[in.Link] = append(h.joined[in.Link], binder.LinkEnd{Interface: in, Component: x.Component})
			} else {
				noteUse("link", in.Link)
			}
			h.addresses = append(h.addresses, in.Addresses...)
		}
		for _, link := range x.CopiedLinks {
			noteUse("link", link)
		}
		if documents[x.Document] {
			continue
		}
		documents[x.Document] = true
		if err := countDocument(x.Document); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// lineOf begins a message; a line is 0 in an expanded request.
func lineOf(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", line)
}

// checkClientIDs returns an Exists error if the slice uses a client_id of the request already. In
// a manifest of the slice, clients could not distinguish the two parts. Only a link may join the one
// with its client_id; if there is none, the error is SearchFailed.
func (h *sliceContent) checkClientIDs(c clientIDs) error {
	for _, x := range c.list {
		if u, ok := h.names[name{x.Kind, x.ClientID}]; ok {
			more := ""
			if x.Kind == "link" && h.links[x.ClientID] {
				more = `; to add only new interfaces to it, write net:join="true"`
			}
			return am.Errorf(am.Exists, "%s%s %.40q is in the slice already (%s); Delete %s first, or use another client_id%s", lineOf(x.Line), x.Kind, x.ClientID, u, deleteHints[x.Kind], more).About(u)
		}
	}
	for _, x := range c.list {
		if x.Join && h.joined[x.ClientID] == nil {
			hint := ""
			if similar := display.Suggest(x.ClientID, slices.Sorted(maps.Keys(h.links))); similar != "" {
				hint = fmt.Sprintf("write the client_id %.40q, or ", similar)
			}
			return am.Errorf(am.SearchFailed, "%slink %.40q has net:join, but the slice has no link of that client_id; %sleave net:join out to make a new link", lineOf(x.Line), x.ClientID, hint)
		}
	}
	return nil
}

// setCopiedLinks stores in each sliver the client_ids of links that end at its node but have no
// interface here. Such links lead to another aggregate.
func setCopiedLinks(c clientIDs, slivers []am.Sliver) {
	made := map[string]bool{}
	for i := range slivers {
		for _, in := range slivers[i].Interfaces {
			made[in.Link] = true
		}
	}
	for _, x := range c.list {
		if x.Kind != "link" || made[x.ClientID] {
			continue
		}
		for _, n := range x.Nodes {
			slivers[n].CopiedLinks = append(slivers[n].CopiedLinks, x.ClientID)
		}
	}
}
