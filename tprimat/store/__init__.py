"""Result files in folders: names, histories, older schemas."""
