"""Names, sentences and advice for causes of lost time, causes of stragglers, and topics."""
