package page

// help is the data of help.html.
type help struct{ Private bool }

// Title implements titled.
func (help) Title() string { return "Help" }

func loadHelp(r *request) (any, error) { return help{r.page.Private}, nil }
