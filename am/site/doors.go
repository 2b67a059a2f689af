package site

import (
	"net/http"
	"strings"

	"patchbay/am/operate"
)

// doors are what commands ask a served site at its socket, beside what package
// server answers itself.
func (s *Site) doors() map[string]http.Handler {
	doors := operate.Doors(s.operations)
	for pattern, h := range map[string]http.Handler{
		"GET /time":        http.HandlerFunc(s.tellTime),
		"GET /clock":       http.HandlerFunc(s.tellClock),
		"POST /clock":      http.HandlerFunc(s.believeClock),
		"GET /reload":      http.HandlerFunc(s.answerReload),
		"POST /reload":     http.HandlerFunc(s.answerReload),
		"GET /hooks":       http.HandlerFunc(s.tellHooks),
		"GET /unpromised":  http.HandlerFunc(s.tellUnpromised),
		"POST /unpromised": http.HandlerFunc(s.releaseUnpromised),
		"GET /backup":      s.backupDoor(),
		"GET /check-store": http.HandlerFunc(s.tellStore),
	} {
		doors[pattern] = bare(h)
	}
	if s.config.readOnly {
		for pattern := range doors {
			if strings.HasPrefix(pattern, http.MethodPost) {
				doors[pattern] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					operate.Fail(w, &operate.RefusedError{Text: errReadOnly.Error()})
				})
			}
		}
	}
	return doors
}

// bare is a door whose questions have no query: nothing that is asked is passed over.
func bare(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := operate.NoQuery(r); err != nil {
			operate.Fail(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}
