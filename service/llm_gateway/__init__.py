"""Gateway to language models: budgets, rate limits, stored answers, and statistics per strategy."""
