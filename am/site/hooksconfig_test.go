package site

import (
	"strings"
	"testing"
	"time"

	"patchbay/am/follow/hook"
)

func TestHookErrorsHaveAPlace(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"UnknownKeyNamesTheNearest", "hooks:\n  - name: a\n    comand: x\n", "f.yaml:5: unknown key hooks.comand; did you mean hooks.command?"},
		{"NoList", "hooks: {name: a}\n", "f.yaml:3: hooks is a list"},
		{"NoName", "hooks:\n  - {name: a, command: x}\n  - command: x\n", "f.yaml:5: hooks: number 2 needs a name"},
		{"NameWithBlanks", "hooks: [{name: a b, command: x}]\n", `f.yaml:3: hooks: number 1 needs a name`},
		{"OneNameTwice", "hooks:\n  - {name: a, command: x}\n  - {name: a, command: y}\n", "f.yaml:5: hooks: two have the name a"},
		{"NeitherCommandNorURL", "hooks: [{name: a}]\n", "a needs either a command or a url"},
		{"Both", "hooks: [{name: a, command: x, url: \"https://example.org/\"}]\n", "a needs either a command or a url"},
		{"UnknownEventNamesTheNearest", "hooks: [{name: a, command: x, events: [ready, expirin]}]\n", `there is no event "expirin"; did you mean expiring?`},
		{"StrangeEventListsAll", "hooks: [{name: a, command: x, events: [birthday]}]\n", `there is no event "birthday"; known are: allocated, begins, no_show, ready, failed`},
		{"TimeWithoutUnit", "hooks: [{name: a, command: x, timeout: 30}]\n", "\"30\" is not a time like"},
		{"NegativeTime", "hooks: [{name: a, command: x, before: -1h}]\n", "f.yaml:3: hooks.before: \"-1h\" is not a time"},
		{"EndlessTime", "hooks: [{name: a, command: x, timeout: 400d}]\n", "a: timeout must be a time like 30s, 1h or 2d"},
		{"SecretForACommand", "hooks: [{name: a, command: x, secret: y}]\n", "a: secret and ca need a url"},
		{"URLOfAnotherKind", "hooks: [{name: a, url: \"file:///etc/passwd\"}]\n", "a: its url is not https://HOST/PATH"},
		{"PasswordInURL", "hooks: [{name: a, url: \"https://me:word@example.org/\"}]\n", "a: its url holds a password; sign with secret: FILE instead"},
		{"PortOutOfRange", "hooks: [{name: a, url: \"https://example.org:84430/\"}]\n", "a: its url has the port 84430"},
		{"TooMany", "hooks:\n" + strings.Repeat("  - {name: a, command: x}\n", maxHooks+1), "33 are too many"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseConfig("/site/f.yaml", []byte(smallest+c.text))
			if err == nil {
				t.Fatal("accepted")
			}
			has(t, err.Error(), c.want)
			if strings.Contains(err.Error(), "me:word") {
				t.Errorf("the message has the password: %v", err)
			}
		})
	}
}

func TestHooksOfAConfiguration(t *testing.T) {
	c, err := ParseConfig("/site/f.yaml", []byte(smallest+`hooks:
  - {name: mail, command: hooks/mail, events: [ready, gone], before: 1d}
  - {name: portal, url: "https://portal.example.org/x?y", secret: key, ca: /etc/ca.pem, timeout: 5s}
`))
	if err != nil {
		t.Fatal(err)
	}
	h := c.hooks()
	if x := h[0]; x.Command != "/site/hooks/mail" || x.Dir != "/site" || len(x.Events) != 2 || x.Before != 24*time.Hour || x.Timeout != hook.DefaultTimeout {
		t.Errorf("mail is %+v", x)
	}
	if x := h[1]; x.URL != "https://portal.example.org/x?y" || x.Secret != "/site/key" || x.CA != "/etc/ca.pem" || x.Events != nil || x.Before != hook.DefaultBefore || x.Timeout != 5*time.Second {
		t.Errorf("portal is %+v", x)
	}
}

// The environment variables of a hook set no key of the configuration, so it can run our
// commands.
func TestAHookCanRunOurCommands(t *testing.T) {
	err := (origin{}).checkEnvironment([]string{"PATCHBAY_EVENT=ready", "PATCHBAY_EVENT_ID=1", "PATCHBAY_EVENT_HOOK=h", "PATCHBAY_EVENT_SLICE=s", "PATCHBAY_EVENT_SLIVER=s"})
	if err != nil {
		t.Error(err)
	}
	if err := (origin{}).checkEnvironment([]string{"PATCHBAY_HOOKS=x"}); err == nil {
		t.Error("hooks of the environment would be overlooked")
	} else {
		has(t, err.Error(), "the values of hooks can be set in patchbay.yaml only")
	}
}
