package xmlrpc

// nameSet detects members with the same name. It uses a map only for structs with many members,
// because the structs of the usual APIs have few members.
type nameSet struct{ seen map[string]bool }

// add records name as the next member after those in s, and reports whether the name is new.
func (n *nameSet) add(s Struct, name string) bool {
	const few = 16
	if len(s) < few {
		_, twice := s.Get(name)
		return !twice
	}
	if n.seen == nil {
		n.seen = make(map[string]bool, 2*few)
		for i := range s {
			n.seen[s[i].Name] = true
		}
	}
	if n.seen[name] {
		return false
	}
	n.seen[name] = true
	return true
}
