"""Result files in directories: names, histories, older schemas."""
