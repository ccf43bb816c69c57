package page

// help is the data of help.html.
type help struct{}

// Title implements titled.
func (help) Title() string { return "Help" }

func loadHelp(*request) (any, error) { return help{}, nil }
