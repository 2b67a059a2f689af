package web

// tab is an entry of the menu.
type tab struct{ Tab, Name, Path string }

var (
	memberTabs = []tab{{"mine", "Mine", "/ui/mine"}, {"start", "Start", "/ui/start"}}
	classTab   = tab{"class", "Class", "/ui/class"}

	operatorTabs = []tab{
		{"today", "Today", "/ui/operator/"}, {"slices", "Slices", "/ui/operator/slices"}, {"nodes", "Nodes", "/ui/operator/nodes"},
		{"members", "Members", "/ui/operator/members"}, {"journal", "Journal", "/ui/operator/journal"}, {"who", "Who had an address", "/ui/operator/who"}, {"use", "Use", "/ui/operator/use"},
	}
)

// Tabs returns the entries of the menu for the visitor. Only those who teach a project see Class.
func (q *request) Tabs() []tab {
	switch {
	case q.isOperator():
		return operatorTabs
	case !q.isMember(), q.Authority == nil:
		return nil
	}
	if taught, err := q.Authority.Classes(q.visitor.Member); err == nil && len(taught) > 0 {
		return append(memberTabs[:len(memberTabs):len(memberTabs)], classTab)
	}
	return memberTabs
}
