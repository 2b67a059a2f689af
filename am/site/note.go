package site

import (
	"context"

	"patchbay/am/audit"
	"patchbay/am/operate"
)

// noteAct is the same in a served site.
func (s *Site) noteAct(operator, what, text string) {
	_, err := s.operations.Note(context.Background(), operate.Note{Event: what, Text: text, Operator: operator})
	if err != nil {
		s.log.Error("the journal does not tell what an operator did", "what", what, "operator", operator, "error", err)
		s.audit.Act(audit.Act{What: what, Text: text, Operator: operator})
	}
}
