package main

import (
	"context"
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/cmd/patchbay/command"
	"patchbay/inventory/provider"
)

const guideLong = `Print a guide, or list all guides.`

// guides are the pages in the folder "guide". The first line of a page is the title.
//
//go:embed guide/*.md
var guides embed.FS

// contractTopic is a guide whose text comes from package provider.
const contractTopic = "contract"

type guideOptions struct{ Topic string }

func (o *guideOptions) AddFlags(*pflag.FlagSet) {}

func (o *guideOptions) Validate(args []string) (err error) {
	if len(args) > 0 {
		o.Topic, err = command.OneArgument(args, "the TOPIC")
	}
	return err
}

func (o *guideOptions) Run(_ context.Context, c command.Console) error {
	topics := guideTopics()
	if o.Topic == "" {
		for _, topic := range topics {
			title, _, _ := strings.Cut(guideText(topic), "\n")
			fmt.Fprintf(c.Out, "%-13s %s\n", topic, strings.TrimPrefix(title, "# "))
		}
		fmt.Fprintln(c.Out, "\nRead one with: patchbay guide TOPIC")
		return nil
	}
	text := guideText(strings.TrimSuffix(o.Topic, ".md"))
	if text == "" {
		hint := "there are " + strings.Join(topics, ", ")
		if near := display.Suggest(o.Topic, topics); near != "" {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("there is no guide %q; %s", o.Topic, hint)
	}
	fmt.Fprint(c.Out, plainGuide(text))
	return nil
}

// guideTopics returns all names in alphabetical order.
func guideTopics() (topics []string) {
	entries, _ := guides.ReadDir("guide")
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".md")
		if len(topics) > 0 && topics[len(topics)-1] < contractTopic && contractTopic < name {
			topics = append(topics, contractTopic)
		}
		topics = append(topics, name)
	}
	return topics
}

// guideText returns "" for an unknown topic.
func guideText(topic string) string {
	if topic == contractTopic {
		return provider.Contract
	}
	text, _ := guides.ReadFile(path.Join("guide", topic+".md"))
	return string(text)
}

// plainGuide is for terminals: code blocks are indented and have no fences.
func plainGuide(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside && line != "\n":
			b.WriteString("    " + line)
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}
