package site

import (
	"encoding/json"
	"net/http"
)

// tellTime answers commands that reckon from now.
func (s *Site) tellTime(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(timeAnswer{s.clock.Now()}) // who asked may have left
}

// tellClock answers `patchbay clock`.
func (s *Site) tellClock(w http.ResponseWriter, _ *http.Request) {
	s.answerClock(w, ClockAnswer{Now: s.clock.State()})
}

// believeClock answers `patchbay clock --believe`.
func (s *Site) believeClock(w http.ResponseWriter, r *http.Request) {
	order, ok := readOrder(w, r)
	if !ok {
		return
	}
	var a ClockAnswer
	a.Before, a.Now = s.clock.Believe()
	s.log.Warn("the host's clock is believed by an operator's word", "site", a.Before.Site, "host", a.Before.Host, "operator", order.Operator)
	if err := s.clock.Save(); err != nil {
		s.log.Error("the clock's file was not written", "error", err)
	}
	if a.Doubted() {
		s.noteAct(order.Operator, ClockBelieved, a.Summary())
	}
	s.answerClock(w, a)
	s.runner.Wake()
}

func (s *Site) answerClock(w http.ResponseWriter, a ClockAnswer) {
	err := a.Count(s.store)
	var text []byte
	if err == nil {
		text, err = json.Marshal(a)
	}
	if err != nil {
		s.log.Error("the clock cannot be told", "error", err)
		http.Error(w, "The clock cannot be told; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text) // who asked may have left
}
