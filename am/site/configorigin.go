package site

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// EnvPrefix begins the environment variables that stand for keys.
const EnvPrefix = "PATCHBAY_"

// origin says where values came from, for messages.
type origin struct {
	File  string
	lines map[string]int // of keys in the file
}

// ConfigError is one mistake: where it is and what to do.
type ConfigError struct{ Where, Key, Msg string }

func (e *ConfigError) Error() string {
	if e.Key == "" {
		return e.Where + ": " + e.Msg
	}
	return e.Where + ": " + e.Key + ": " + e.Msg
}

// Where is the variable, or the file and line, that a key's value is from.
func (o origin) Where(key string) string {
	if variable(key) != "" {
		return "environment " + envName(key)
	}
	for k := key; k != ""; k = parentKey(k) {
		if line := o.lines[k]; line > 0 {
			return fmt.Sprintf("%s:%d", o.File, line)
		}
	}
	return o.File
}

// has tells whether a key was given, by the file or a variable.
func (o origin) has(key string) bool {
	return variable(key) != "" || o.lines[key] > 0
}

func parentKey(key string) string {
	return key[:max(0, strings.LastIndexByte(key, '.'))]
}

func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// variable is what the environment gives for a key; "" for one in or of a list.
func variable(key string) string {
	if !slices.ContainsFunc(settings(&Config{}), func(s setting) bool { return s.key == key }) {
		return ""
	}
	return os.Getenv(envName(key))
}

func (o origin) wrong(key, format string, args ...any) error {
	return &ConfigError{o.Where(key), key, fmt.Sprintf(format, args...)}
}
